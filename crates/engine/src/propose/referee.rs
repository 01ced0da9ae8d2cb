//! A question on its way to a verdict: noise, search, level, sealed seeds.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use fs_err as fs;

use super::{
    Answer, ProposeError, Standing, answer,
    attempts::Attempts,
    judge::{self, Effect, Verdict},
    ledger::{self, Archive, Conclusion, Event, Grant, Ledger, Noise},
    question::Question,
    seal::{Secret, reveal, seal, seeds},
    study::Subject,
};
use crate::{
    analysis::Results,
    export::bundle,
    format::say,
    recipe::Request,
    render::{Page, Report},
    stats::{Sample, online},
};

/// Seeds with which the noise of a baseline is measured.
pub(super) const NOISE: usize = 5;

/// Folder of the bundles, below the results.
pub(super) const FOLDER: &str = "proposals";

/// A question on its way to a verdict. The lock of the ledger is held.
pub(super) struct Referee<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) ledger: Ledger,
    pub(super) question: Question,
    pub(super) secret: Secret,
}

/// Verdict of a confirmation with its grounds.
struct Confirmed {
    verdict: Verdict,
    effect: Effect,
    evidence: ledger::Evidence,
    seconds: f64,
    /// The key that the sealed seeds follow from, revealed.
    key: String,
    /// Sealed jobs that began more than once.
    repeated: usize,
    /// Digest of the list of attempts.
    attempts: String,
}

impl Referee<'_> {
    pub(super) fn judge(mut self, asked: Option<usize>) -> Result<Answer, ProposeError> {
        self.ledger.open(&self.secret.digest(), &self.secret.file)?;
        if let Some(grant) = asked.and_then(|asked| self.ledger.grant(asked)) {
            self.same_code(grant)?;
        }
        let noise = self.noise()?;
        if noise.sd <= 0.0 {
            let Question { metric, .. } = &self.question;
            let reason =
                format!("`{metric}` of the baseline is the same with every seed, so there is no noise to test against");
            return Ok(answer(&self.ledger, self.question, Standing::Refused, reason));
        }
        let asked = match asked {
            Some(asked) => asked,
            None => self.ledger.add(Event::Asked { question: self.question.clone() })?,
        };
        say(format_args!("question {asked}: search with the seeds of the recipe"));
        let paths = self.subject.both();
        let searched = self.subject.run(&paths, &self.subject.seeds, None)?;
        let search = self.subject.effect(&searched, &self.subject.seeds)?;
        let seconds = self.subject.seconds(&searched)?;
        let is_granted = self.ledger.grant(asked).is_some();
        let end = if search.mean > 0.0 || is_granted {
            let Confirmed { verdict, effect, evidence, seconds: more, key, repeated, attempts } =
                self.confirm(asked, &noise)?;
            let bundle = Some(self.archive(asked, &effect.seeds, Some(key))?);
            let (confirmed, evidence, seconds) = (Some(effect), Some(evidence), seconds + more);
            Conclusion { asked, verdict, search, confirmed, evidence, seconds, bundle, repeated, attempts }
        } else {
            let bundle = Some(self.archive(asked, &[], None)?);
            let (verdict, attempts) = (Verdict::Dropped, String::new());
            Conclusion {
                asked,
                verdict,
                search,
                confirmed: None,
                evidence: None,
                seconds,
                bundle,
                repeated: 0,
                attempts,
            }
        };
        self.ledger.add(Event::Concluded(Box::new(end.clone())))?;
        let reason = match end.verdict {
            Verdict::Accepted => "the sealed seeds confirm the improvement".to_owned(),
            Verdict::Refuted => "the improvement is less than the least effect".to_owned(),
            Verdict::Undecided => "the sealed seeds neither confirm nor exclude the improvement".to_owned(),
            Verdict::Dropped => "the search found no improvement; no level was spent".to_owned(),
        };
        let at = self.ledger.questions().find(|(entry, _)| entry.number == asked).map(|(entry, _)| entry.at);
        let grant = self.ledger.grant(asked).cloned();
        let answer = answer(&self.ledger, self.question, Standing::Judged, reason);
        let level = grant.as_ref().map_or(answer.level, |grant| grant.level);
        let (pairs, power) = grant.map(|grant| (grant.pairs, grant.power)).unzip();
        Ok(Answer { asked: Some(asked), asked_at: at, level, pairs, power, conclusion: Some(end), ..answer })
    }

    /// The noise of the baseline, measured with sealed seeds of its own before the first question about it.
    fn noise(&mut self) -> Result<Noise, ProposeError> {
        let Question { baseline, metric, .. } = self.question.clone();
        if let Some(noise) = self.ledger.noise(baseline, &metric) {
            return Ok(noise.clone());
        }
        let key = self.secret.key(&format!("noise {baseline}"));
        let seeds = seeds(&key, NOISE, &self.known());
        say(format_args!("measuring the noise of the baseline with {NOISE} seeds"));
        let plan = self.subject.run(std::slice::from_ref(&self.subject.proposal.recipe), &seeds, None)?;
        let values = self.subject.values(&plan, self.subject.store)?;
        let values: Vec<f64> = values.into_iter().flat_map(BTreeMap::into_values).collect();
        let sd = Sample::new(&values).filter(|sample| sample.n == NOISE).and_then(|sample| sample.sd);
        let sd = sd.ok_or_else(|| ProposeError::Unpaired(self.subject.step.clone()))?;
        let noise = Noise { baseline, metric, values, sd };
        self.ledger.add(Event::Noise(noise.clone()))?;
        Ok(noise)
    }

    /// The seeds of the search, which no sealed one is.
    fn known(&self) -> BTreeSet<i64> {
        self.subject.seeds.iter().copied().collect()
    }

    /// Grants a level, once, and runs the sealed seeds.
    fn confirm(&mut self, asked: usize, noise: &Noise) -> Result<Confirmed, ProposeError> {
        let digest = self.question.digest()?;
        let key = self.secret.key(&format!("confirmation {digest}"));
        let Question { least, better, .. } = self.question;
        let grant = match self.ledger.grant(asked).cloned() {
            Some(grant) => grant,
            None => {
                let (test, discoveries) = (self.ledger.tests() + 1, self.ledger.discoveries());
                let level = online::level_after(test, discoveries);
                let (pairs, power) = judge::pairs(least, noise.sd, level, self.subject.proposal.most);
                let code = self.subject.code()?;
                let grant = Grant { asked, test, discoveries, level, pairs, power, seal: seal(&key), code };
                self.ledger.add(Event::Granted(grant.clone()))?;
                grant
            }
        };
        let sealed = seeds(&key, grant.pairs, &self.known());
        let (pairs, level) = (grant.pairs, grant.level);
        let mut attempts = Attempts::read(self.subject.store, asked)?;
        if let Some(record) = attempts.lost(self.subject.store)? {
            return Err(ProposeError::Removed { question: asked, record });
        }
        say(format_args!("question {asked}: confirmation with {pairs} sealed seeds at level {level:.2e}"));
        let plan = self.subject.run(&self.subject.both(), &sealed, Some(&mut attempts));
        let attempts = attempts.close()?;
        let plan = plan?;
        // A change while the jobs ran has been undone by now, or is found here.
        self.same_code(&grant)?;
        if let Some(record) = attempts.lost(self.subject.store)? {
            return Err(ProposeError::Removed { question: asked, record });
        }
        let effect = self.subject.effect(&plan, &sealed)?;
        let (verdict, evidence) = effect.judge(better.sign(), least, level);
        let (seconds, key) = (self.subject.seconds(&plan)?, reveal(&key));
        let (repeated, attempts) = (attempts.repeated(), attempts.digest()?);
        Ok(Confirmed { verdict, effect, evidence, seconds, key, repeated, attempts })
    }

    /// Checks that the code is that of the search, after which the level was granted.
    fn same_code(&self, grant: &Grant) -> Result<(), ProposeError> {
        let (before, now) = (&grant.code, &self.subject.code()?);
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let changed: Vec<String> =
            names.into_iter().filter(|name| before.get(*name) != now.get(*name)).cloned().collect();
        if changed.is_empty() { Ok(()) } else { Err(ProposeError::Changed { question: grant.asked, changed }) }
    }

    /// Writes the bundle of the search and of the sealed seeds.
    fn archive(&self, asked: usize, sealed: &[i64], key: Option<String>) -> Result<Archive, ProposeError> {
        let seeds: Vec<i64> = self.subject.seeds.iter().chain(sealed).copied().collect();
        let (paths, axes) = (self.subject.both(), Subject::axes(&seeds));
        let plan = self.subject.plan(&paths, Some(&seeds), true)?;
        let store = self.subject.store;
        let done = Results::read(&plan, store)?;
        for study in &plan.studies {
            Report::new(&plan, study, &done, store).write(store.results(), Page::IfStale)?;
        }
        let folder = PathBuf::from(FOLDER);
        fs::create_dir_all(store.results().join(&folder))?;
        let file = folder.join(format!("{asked:06}.sweep.tar"));
        let mut text = Vec::new();
        let request = Request { paths: &paths, set: &[], axes: &axes, scale: None, only: &[] };
        bundle::write(&plan, &request, store, &mut text)?;
        let beside = tempfile::NamedTempFile::new_in(store.beside()?)?;
        fs::write(beside.path(), &text)?;
        beside.as_file().sync_all()?;
        beside.persist(store.results().join(&file)).map_err(|error| error.error)?;
        Ok(Archive { file, blake3: ledger::digest(&text), key })
    }
}
