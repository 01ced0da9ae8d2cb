//! Verification of the ledger: its chain, its levels, its bundles, and the verdicts from the records in them.

use std::io::{self, BufReader};

use fs_err as fs;
use serde::Serialize;

use super::{
    ProposeError,
    judge::Verdict,
    ledger::{Archive, Conclusion, Grant, Ledger, digest},
    question::Question,
    seal::{revealed, seal, seeds},
    study::{paired, values},
};
use crate::{export::bundle, store::Store};

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
/// The chain is broken, or the disk says no. What is wrong with a bundle is a defect.
pub fn verify(store: &Store) -> Result<Checked, ProposeError> {
    let ledger = Ledger::read(store)?;
    let mut checked = Checked { entries: ledger.entries.len(), head: ledger.head.clone(), ..Checked::default() };
    for (_, end) in ledger.conclusions() {
        let asked = end.asked;
        let defect = match (ledger.question(asked), ledger.grant(asked), &end.bundle) {
            (Some(_), _, None) if end.verdict == Verdict::Dropped && end.search.mean <= 0.0 => continue,
            (Some(question), Some(grant), Some(archive)) => verdict(store, question, grant, end, archive),
            _ => Ok(Some("it has a verdict without a confirmation".to_owned())),
        };
        match defect {
            Ok(None) => checked.verdicts += 1,
            Ok(Some(defect)) => checked.defects.push(format!("question {asked}: {defect}")),
            Err(error) => checked.defects.push(format!("question {asked}: {error}")),
        }
    }
    Ok(checked)
}

/// The defect of a verdict; `None` if it follows from its bundle.
fn verdict(
    store: &Store,
    question: &Question,
    grant: &Grant,
    end: &Conclusion,
    archive: &Archive,
) -> Result<Option<String>, ProposeError> {
    let defect = |text: &str| Ok(Some(text.to_owned()));
    let text = match fs::read(store.results().join(&archive.file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return defect("its bundle is missing"),
        text => text?,
    };
    if digest(&text) != archive.blake3 {
        return defect("its bundle was changed");
    }
    let Some(key) = revealed(&archive.key).filter(|key| seal(key) == grant.seal) else {
        return defect("the key of its seeds is not the sealed one");
    };
    let drawn = seeds(&key, grant.pairs, &end.search.seeds.iter().copied().collect());
    let folder = tempfile::tempdir()?;
    let opened = bundle::unpack(BufReader::new(text.as_slice()), folder.path())?;
    let plan = opened.plan(opened.draft()?)?;
    let verified = opened.verify(&plan)?;
    if let Some(first) = verified.defects.first() {
        return Ok(Some(format!("its bundle: {first}")));
    }
    let Question { step, at, metric, better, least, .. } = question;
    let values = values(&plan, &opened.store(), step, at, metric)?;
    let Some(effect) = paired(&values, &drawn, better.sign()) else {
        return defect("its bundle does not have the sealed seeds");
    };
    let (verdict, evidence) = effect.judge(better.sign(), *least, grant.level);
    let agrees = verdict == end.verdict && Some(evidence) == end.evidence && Some(&effect) == end.confirmed.as_ref();
    Ok((!agrees).then(|| format!("its records give `{}`, with other numbers", verdict.word())))
}
