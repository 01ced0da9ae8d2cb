//! A question on its way to a verdict: noise, search, level, sealed seeds.

use std::{collections::BTreeSet, path::PathBuf};

use fs_err as fs;

use super::{
    Answer, ProposeError, Standing, answer,
    attempts::Attempts,
    judge::{Effect, Verdict},
    ledger::{self, Archive, Conclusion, Event, Grant, Ledger, LedgerError, Noise},
    question::Question,
    rule::{self, Next, Stages},
    seal::{Secret, nonce, reveal, seal, seeds},
    sealed::leaks,
    study::Subject,
};
use crate::{
    analysis::Results,
    export::bundle,
    format::say,
    host::replaced::{Outlives, Readers, replace},
    plan::Plan,
    recipe::Request,
    record::Key,
    render::{Page, Report},
    session::Interrupts,
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
    pub(super) interrupts: Interrupts,
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
    /// Calls that differed from the granted question.
    altered: usize,
    /// Digest of the list of attempts.
    attempts: String,
    /// Sealed files that only the candidate reads.
    leaks: Vec<String>,
}

/// End of a search.
struct Searched {
    effect: Effect,
    seconds: f64,
    next: Next,
    /// Sealed files that only the candidate reads.
    leaks: Vec<String>,
}

impl Referee<'_> {
    /// Judges a question; `altered` names the differences of the proposal from the question, if it has a level.
    pub(super) fn judge(mut self, asked: Option<usize>, altered: Vec<String>) -> Result<Answer, ProposeError> {
        self.ledger.open(&self.secret.digest(), &self.secret.file)?;
        if let Some(grant) = asked.and_then(|asked| self.ledger.grant(asked)) {
            self.hold(grant, altered)?;
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
        self.subject.tell(format_args!("question {asked}: search with the seeds of the recipe"));
        let Searched { effect: search, seconds, next, leaks } =
            self.search(&noise, self.ledger.grant(asked).is_some())?;
        let end = if next == Next::GoesOn {
            self.confirmed(asked, search, seconds, &noise)?
        } else {
            let bundle = Some(self.archive(asked, &search.seeds, None)?);
            let verdict = if leaks.is_empty() { Verdict::Dropped } else { Verdict::Leaked };
            Conclusion { bundle, leaks, ..Conclusion::new(asked, verdict, search, seconds) }
        };
        self.ledger.add(Event::Concluded(Box::new(end.clone())))?;
        let reason = end.reason().to_owned();
        let at = self.ledger.questions().find(|(entry, _)| entry.number == asked).map(|(entry, _)| entry.at);
        let grant = self.ledger.grant(asked).cloned();
        let answer = answer(&self.ledger, self.question, Standing::Judged, reason);
        let level = grant.as_ref().map_or(answer.level, |grant| grant.level);
        let (pairs, power) = grant.map(|grant| (grant.pairs, grant.power)).unzip();
        Ok(Answer { asked: Some(asked), asked_at: at, level, pairs, power, conclusion: Some(end), ..answer })
    }

    /// The improvement with the seeds of the search, one after the other until it is dropped; all of them for a question that
    /// has a level.
    fn search(&self, noise: &Noise, is_granted: bool) -> Result<Searched, ProposeError> {
        let (subject, paths, all) = (&self.subject, self.subject.both(), self.subject.seeds.len());
        let (sign, least) = (self.question.better.sign(), self.question.least);
        let mut count = if is_granted { all } else { 1 };
        loop {
            self.go_on()?;
            let seeds = &subject.seeds[..count];
            let plan = subject.run(&paths, seeds, None)?;
            let effect = subject.effect(&plan, seeds)?;
            let leaks = if is_granted { Vec::new() } else { leaks(&plan, &subject.proposal.sealed)? };
            let next = match rule::search(&effect, all, &noise.values, sign, least, noise.sd) {
                Next::Dropped if !is_granted => Next::Dropped,
                _ if !leaks.is_empty() => Next::Dropped,
                _ => Next::GoesOn,
            };
            if next == Next::Dropped || count == all {
                let seconds = subject.seconds(&plan)?;
                return Ok(Searched { effect, seconds, next, leaks });
            }
            count += 1;
        }
    }

    /// Ends the proposal after a signal that came between two runs.
    fn go_on(&self) -> Result<(), ProposeError> {
        self.interrupts.signal().map_or(Ok(()), |signal| Err(ProposeError::Interrupted(signal)))
    }

    /// The conclusion of a question that goes to its confirmation.
    fn confirmed(
        &mut self,
        asked: usize,
        search: Effect,
        seconds: f64,
        noise: &Noise,
    ) -> Result<Conclusion, ProposeError> {
        let Confirmed { verdict, effect, evidence, seconds: more, key, repeated, altered, attempts, leaks } =
            self.confirm(asked, noise)?;
        let seeds: Vec<i64> = self.subject.seeds.iter().chain(&effect.seeds).copied().collect();
        let bundle = Some(self.archive(asked, &seeds, Some(key))?);
        let (confirmed, evidence) = (Some(effect), Some(evidence));
        let start = Conclusion::new(asked, verdict, search, seconds + more);
        Ok(Conclusion { confirmed, evidence, bundle, repeated, altered, leaks, attempts, ..start })
    }

    /// The noise of the baseline. For an accepted change, it follows from the sealed values of its confirmation; otherwise it is measured
    /// with separate sealed seeds before the first question about the baseline.
    fn noise(&mut self) -> Result<Noise, ProposeError> {
        let Question { baseline, metric, .. } = self.question.clone();
        if let Some(noise) = self.ledger.noise(baseline, &metric) {
            return Ok(noise.clone());
        }
        if let Some(values) = self.ledger.confirmed_values(baseline, &metric) {
            return self.add_noise(baseline, metric, values);
        }
        let key = self.secret.key(&format!("noise {baseline}"));
        // Whatever the seeds of the recipe are: a change of them does not draw the noise again.
        let seeds = seeds(&key, NOISE, &BTreeSet::new());
        self.subject.tell(format_args!("measuring the noise of the baseline with {NOISE} seeds"));
        let plan = self.subject.run(std::slice::from_ref(&self.subject.proposal.recipe), &seeds, None)?;
        let values = self.subject.values(&plan, self.subject.store)?;
        let values: Vec<f64> = values.into_iter().flatten().map(|(_, value)| value).collect();
        if values.len() != NOISE {
            return Err(ProposeError::Unpaired(self.subject.step.clone()));
        }
        self.add_noise(baseline, metric, values)
    }

    /// Notes the noise of a baseline in the ledger.
    fn add_noise(&mut self, baseline: Key, metric: String, values: Vec<f64>) -> Result<Noise, ProposeError> {
        let sd = Sample::new(&values).and_then(|sample| sample.sd);
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
        let Question { least, better, .. } = self.question;
        let grant = match self.ledger.grant(asked).cloned() {
            Some(grant) => grant,
            None => self.grant(asked, noise)?,
        };
        let key = self.key(&grant.nonce)?;
        if seal(&key) != grant.seal {
            return Err(LedgerError::Secret(self.secret.file.clone()).into());
        }
        let (pairs, level) = (grant.pairs, grant.level);
        let sealed = seeds(&key, pairs, &self.known());
        let (subject, both) = (&self.subject, self.subject.both());
        let mut attempts = Attempts::read(subject.store, asked)?;
        if !grant.stages.is_empty() && rule::pairs(least, noise.sd, level, subject.proposal.most).0 != pairs {
            attempts.alter(vec!["the maximum number of sealed seeds".to_owned()])?;
        }
        self.same_jobs(&mut attempts, asked, &subject.plan(&both, Some(&sealed), false)?, &sealed)?;
        self.subject.tell(format_args!(
            "question {asked}: confirmation with at most {pairs} sealed seeds at level {level:.2e}"
        ));
        let ran = self.stages(&grant, &sealed, noise, &mut attempts);
        let mut attempts = attempts.close()?;
        let (plan, effect) = ran?;
        self.same_jobs(&mut attempts, asked, &plan, &effect.seeds)?;
        let leaks = leaks(&plan, &self.subject.proposal.sealed)?;
        let (verdict, evidence) = effect.judge(better.sign(), least, &grant.stages());
        let verdict = if leaks.is_empty() { verdict } else { Verdict::Leaked };
        let (seconds, key) = (self.subject.seconds(&plan)?, reveal(&key));
        let (repeated, altered, attempts) = (attempts.repeated(), attempts.altered(), attempts.digest()?);
        Ok(Confirmed { verdict, effect, evidence, seconds, key, repeated, altered, attempts, leaks })
    }

    /// Runs the sealed seeds in stages until the confirmation ends. A change of the code while the jobs of a stage ran has been
    /// undone at its end, or is found there.
    fn stages(
        &self,
        grant: &Grant,
        sealed: &[i64],
        noise: &Noise,
        attempts: &mut Attempts,
    ) -> Result<(Plan, Effect), ProposeError> {
        let (subject, both, stages) = (&self.subject, self.subject.both(), grant.stages());
        let (sign, least) = (self.question.better.sign(), self.question.least);
        for size in stages.sizes() {
            self.go_on()?;
            let seeds = &sealed[..(*size).min(sealed.len())];
            let plan = subject.run(&both, seeds, Some(&mut *attempts))?;
            self.hold(grant, Vec::new())?;
            let effect = subject.effect(&plan, seeds)?;
            if stages.is_end(&effect, sign, least, noise.sd) {
                return Ok((plan, effect));
            }
        }
        Err(ProposeError::Unpaired(subject.step.clone()))
    }

    /// The key of the sealed seeds.
    fn key(&self, nonce: &str) -> Result<[u8; 32], ProposeError> {
        let digest = self.question.digest()?;
        let separator = if nonce.is_empty() { "" } else { " " };
        Ok(self.secret.key(&format!("confirmation {digest}{separator}{nonce}")))
    }

    /// Grants the question a level for the present seeds, parameters and code of the search.
    fn grant(&mut self, asked: usize, noise: &Noise) -> Result<Grant, ProposeError> {
        let subject = &self.subject;
        if !Attempts::read(subject.store, asked)?.is_empty() {
            let reason = "has sealed jobs that began, and no level: a later entry was removed".to_owned();
            return Err(LedgerError::Broken { number: asked, reason }.into());
        }
        let (test, discoveries) = (self.ledger.tests() + 1, self.ledger.discoveries());
        let level = online::level_after(test, discoveries);
        let (pairs, power) = rule::pairs(self.question.least, noise.sd, level, subject.proposal.most);
        let stages = Stages::new(pairs, level).sizes().to_vec();
        let nonce = nonce()?;
        let seal = seal(&self.key(&nonce)?);
        let (searched, code, parameters) = (subject.seeds.clone(), subject.code()?, Some(subject.parameters()?));
        let grant =
            Grant { asked, test, discoveries, level, pairs, stages, power, seal, code, searched, nonce, parameters };
        self.ledger.add(Event::Granted(grant.clone()))?;
        Ok(grant)
    }

    /// Checks that code and parameters are unchanged since the search, after which the level was granted. Counts a call that differs in
    /// these, or in the properties that `altered` names.
    fn hold(&self, grant: &Grant, mut altered: Vec<String>) -> Result<(), ProposeError> {
        let (before, now) = (&grant.code, &self.subject.code()?);
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let mut changed: Vec<String> =
            names.into_iter().filter(|name| before.get(*name) != now.get(*name)).cloned().collect();
        if grant.parameters.is_some_and(|before| self.subject.parameters().is_ok_and(|now| now != before)) {
            changed.push("the parameters of its jobs, or what is measured of them".to_owned());
        }
        if !altered.is_empty() {
            let (question, by) = (grant.asked, altered.join(" and "));
            say(format_args!(
                "note: question {question} is open and keeps what was granted: {by} changed since; the call is counted"
            ));
        }
        altered.extend(changed.iter().cloned());
        if !altered.is_empty() {
            Attempts::read(self.subject.store, grant.asked)?.alter(altered)?;
        }
        if changed.is_empty() { Ok(()) } else { Err(ProposeError::Changed { question: grant.asked, changed }) }
    }

    /// Checks that every sealed job that began is in the plan, and that its record is the one of the attempt. Counts a call
    /// without them.
    fn same_jobs(
        &self,
        attempts: &mut Attempts,
        question: usize,
        plan: &Plan,
        sealed: &[i64],
    ) -> Result<(), ProposeError> {
        let store = self.subject.store;
        let planned: Result<BTreeSet<_>, _> = plan.jobs().map(|(id, _)| plan.key_of_variant(id)).collect();
        let left_out = attempts.started().difference(&planned?).count();
        let refused = if left_out > 0 {
            ProposeError::LeftOut { question, jobs: left_out }
        } else if let Some(record) = attempts.lost(store)? {
            ProposeError::Removed { question, record }
        } else if let Some(record) = attempts.foreign(store, plan, self.subject.measuring(plan, sealed))? {
            ProposeError::Foreign { question, record }
        } else {
            return Ok(());
        };
        attempts.alter(vec!["the records of its sealed jobs".to_owned()])?;
        Err(refused)
    }

    /// Writes the bundle of the jobs with these seeds, of the search and sealed.
    fn archive(&self, asked: usize, seeds: &[i64], key: Option<String>) -> Result<Archive, ProposeError> {
        let (paths, axes) = (self.subject.both(), Subject::axes(seeds));
        let plan = self.subject.plan(&paths, Some(seeds), true)?;
        let store = self.subject.store;
        let done = Results::read(&plan, store)?;
        for study in &plan.studies {
            Report::new(&plan, study, &done, store).write(store.results(), Page::IfStale)?;
        }
        let file = PathBuf::from(FOLDER).join(format!("{asked:06}.sweep.tar"));
        let mut text = Vec::new();
        let request = Request { paths: &paths, set: &[], axes: &axes, scale: None, only: &[] };
        // The ledger's bundles prove verdicts; they need no inputs.
        bundle::write(&plan, &request, store, 0, &mut text)?;
        fs::create_dir_all(store.results().join(FOLDER))?;
        replace(&store.results().join(&file), &text, Readers::Owner, Outlives::Machine)?;
        Ok(Archive { file, blake3: ledger::digest(&text), key })
    }
}
