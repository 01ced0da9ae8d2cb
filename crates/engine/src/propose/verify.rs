//! Verification of the ledger: its chain, its levels, its bundles, and the searches and verdicts from the records in them.

use std::{
    collections::BTreeSet,
    io::{self, BufReader},
    path::Path,
};

use fs_err as fs;
use serde::Serialize;

use super::{
    ProposeError,
    attempts::Attempts,
    judge::{Effect, Verdict},
    ledger::{Archive, Conclusion, Grant, Ledger, Noise, digest},
    question::Question,
    referee::FOLDER,
    rule,
    seal::{revealed, seal, seeds},
    study::{Values, measuring, paired, values},
};
use crate::{
    export::bundle,
    format::count,
    plan::{JobId, Plan},
    record::Key,
    store::Store,
};

/// Result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Entries whose digests and levels follow from those before them.
    pub entries: usize,
    /// Verdicts that follow from the records in their bundles.
    pub verdicts: usize,
    /// Digest of the latest entry.
    pub head: String,
    /// Defects.
    pub defects: Vec<String>,
}

/// Verifies the ledger of a store: every digest and level, every bundle, and every verdict from the records.
///
/// # Errors
/// The chain is broken, or a file cannot be read. A damaged bundle is a defect in the result, not an error.
pub fn verify(store: &Store) -> Result<Checked, ProposeError> {
    let ledger = Ledger::read(store)?;
    let mut verification = Checked { entries: ledger.entries.len(), head: ledger.head.clone(), ..Checked::default() };
    for (_, conclusion) in ledger.conclusions() {
        let number = conclusion.asked;
        let defect = match (ledger.question(number), &conclusion.bundle) {
            (Some(question), Some(archive)) => verdict(store, &ledger, question, conclusion, archive),
            _ => Ok(Some("it has a verdict without a bundle".to_owned())),
        };
        match defect {
            Ok(None) => verification.verdicts += 1,
            Ok(Some(defect)) => verification.defects.push(format!("question {number}: {defect}")),
            Err(error) => verification.defects.push(format!("question {number}: {error}")),
        }
    }
    verification.defects.extend(ungranted(store, &ledger)?);
    verification.defects.extend(strays(store, &ledger)?);
    Ok(verification)
}

/// The bundles of verdicts that the ledger does not have.
fn strays(store: &Store, ledger: &Ledger) -> io::Result<Vec<String>> {
    let folder = store.results().join(FOLDER);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut strays = Vec::new();
    for entry in entries {
        let file = Path::new(FOLDER).join(entry?.file_name());
        let is_known = ledger
            .conclusions()
            .any(|(_, conclusion)| conclusion.bundle.as_ref().is_some_and(|bundle| bundle.file == file));
        if !is_known {
            strays.push(format!(
                "{} is the bundle of no verdict: the end of the ledger was cut, or a proposal was ended before its verdict",
                file.display()
            ));
        }
    }
    strays.sort();
    Ok(strays)
}

/// The jobs that have records, independent of their code.
fn records(store: &Store, plan: &Plan, jobs: impl IntoIterator<Item = JobId>) -> Result<BTreeSet<Key>, ProposeError> {
    let mut keys = BTreeSet::new();
    for id in jobs {
        let job = plan.job(id);
        if let Some(record) = store.get(job.key)?
            && record.identity.base_key()? == job.identity.base_key()?
        {
            keys.insert(plan.key_of_variant(id)?);
        }
    }
    Ok(keys)
}

/// The questions without a level of which sealed jobs began.
fn ungranted(store: &Store, ledger: &Ledger) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(store.ledger()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut defects = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".attempts")?.parse::<usize>().ok());
        if number.is_some_and(|number| ledger.grant(number).is_none()) {
            defects.push(format!(
                "{} lists sealed jobs of a question without a level: the end of the ledger was cut",
                name.display()
            ));
        }
    }
    defects.sort();
    Ok(defects)
}

/// True if a search may have been dropped: its improvement is below the least effect.
fn is_below(search: &Effect, question: &Question, noise: Option<&Noise>) -> bool {
    let sealed = noise.map_or(&[][..], |noise| &noise.values);
    rule::improvement(search, sealed, question.better.sign()).min(search.mean) < question.least
}

/// The defect of a verdict; `None` if it follows from its bundle.
fn verdict(
    store: &Store,
    ledger: &Ledger,
    question: &Question,
    conclusion: &Conclusion,
    archive: &Archive,
) -> Result<Option<String>, ProposeError> {
    let defect = |text: &str| Ok(Some(text.to_owned()));
    let grant = ledger.grant(conclusion.asked);
    let text = match fs::read(store.results().join(&archive.file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return defect("its bundle is missing"),
        text => text?,
    };
    if digest(&text) != archive.blake3 {
        return defect("its bundle was changed");
    }
    let search_seeds = conclusion.search.seeds.iter().copied().collect();
    if grant.is_some_and(|grant| !grant.searched.is_empty() && grant.searched != conclusion.search.seeds) {
        return defect("its search has other seeds than at its grant");
    }
    let sealed_seeds = match (grant, &archive.key) {
        (None, None) => None,
        (Some(grant), Some(key)) => match revealed(key).filter(|key| seal(key) == grant.seal) {
            Some(key) => Some((grant, seeds(&key, grant.pairs, &search_seeds))),
            None => return defect("the key of its seeds is not the sealed one"),
        },
        _ => return defect("it has a level or a confirmation without the other"),
    };
    let folder = tempfile::tempdir()?;
    let unpacked_bundle = bundle::unpack(BufReader::new(text.as_slice()), folder.path())?;
    let plan = unpacked_bundle.plan(unpacked_bundle.draft()?)?;
    let verification = unpacked_bundle.verify(&plan)?;
    if let Some(first_defect) = verification.defects.first() {
        return Ok(Some(format!("its bundle: {first_defect}")));
    }
    let Question { step, at, metric, better, .. } = question;
    let values = values(&plan, &unpacked_bundle.store(), step, at, metric)?;
    if paired(&values, &conclusion.search.seeds, better.sign()).as_ref() != Some(&conclusion.search) {
        return defect("its records give another search");
    }
    let noise = ledger.noise(question.baseline, metric);
    let Some((grant, sealed_seeds)) = sealed_seeds else {
        let is_dropped = conclusion.verdict == Verdict::Dropped && is_below(&conclusion.search, question, noise);
        return Ok(
            (!is_dropped && !is_leaked(conclusion)).then(|| "it has a verdict without a confirmation".to_owned())
        );
    };
    let bundled = records(&unpacked_bundle.store(), &plan, plan.jobs().map(|(id, _)| id))?;
    let measuring = records(&unpacked_bundle.store(), &plan, measuring(&plan, &sealed_seeds, step, at))?;
    if let Some(defect) = attempted(store, conclusion, &bundled, &measuring)? {
        return Ok(Some(defect));
    }
    Ok(confirmed(question, grant, noise, conclusion, &values, &sealed_seeds))
}

/// True for a change that was rejected because of its reads, which a bundle does not contain. Such a verdict has no benefit for its author.
fn is_leaked(end: &Conclusion) -> bool {
    end.verdict == Verdict::Leaked && !end.leaks.is_empty()
}

/// The defect of the attempts at sealed jobs.
fn attempted(
    store: &Store,
    conclusion: &Conclusion,
    bundled: &BTreeSet<Key>,
    measuring: &BTreeSet<Key>,
) -> Result<Option<String>, ProposeError> {
    let attempts = Attempts::read(store, conclusion.asked)?;
    let counts = (attempts.repeated(), attempts.altered());
    if attempts.digest()? != conclusion.attempts || counts != (conclusion.repeated, conclusion.altered) {
        return Ok(Some("the list of attempts at its sealed jobs was changed".to_owned()));
    }
    let missing_jobs = attempts.started().difference(bundled).count();
    if missing_jobs > 0 {
        let jobs = count(missing_jobs, "sealed job");
        return Ok(Some(format!("{jobs} that began are not in its bundle: seeds were left out after they were seen")));
    }
    let is_own = measuring.is_subset(&attempts.started());
    Ok((!is_own).then(|| "records of its sealed jobs were made by no attempt at them".to_owned()))
}

/// The defect of a confirmation, which ends at the first stage at which the rule ends it.
fn confirmed(
    question: &Question,
    grant: &Grant,
    noise: Option<&Noise>,
    conclusion: &Conclusion,
    values: &[Values],
    sealed_seeds: &[i64],
) -> Option<String> {
    let (sign, least, stages) = (question.better.sign(), question.least, grant.stages());
    let sd = noise.map_or(0.0, |noise| noise.sd);
    let effect_at = |size: &usize| paired(values, &sealed_seeds[..(*size).min(sealed_seeds.len())], sign);
    let end_effect = stages.sizes().iter().map_while(effect_at).find(|effect| stages.is_end(effect, sign, least, sd));
    let Some(effect) = end_effect else {
        return Some("its bundle does not have the sealed seeds up to the end of the confirmation".to_owned());
    };
    let (verdict, evidence) = effect.judge(sign, least, &stages);
    let is_equal = (verdict == conclusion.verdict || is_leaked(conclusion))
        && Some(evidence) == conclusion.evidence
        && Some(&effect) == conclusion.confirmed.as_ref();
    (!is_equal).then(|| format!("its records give `{}`, with other numbers", verdict.word()))
}
