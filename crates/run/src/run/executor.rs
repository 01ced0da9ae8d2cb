//! The loop of a run: an executor starts jobs and learns of their ends, and decisions about further jobs follow.

use std::{io, time::Instant};

use super::{Addition, Control, RoundPlanner, RunEvent, Summary, state::RunState};

/// Runs the jobs of a plan: in processes of this machine, or through a batch system.
pub(super) trait Executor<'a, 'o: 'a> {
    /// The state of the run.
    fn state(&mut self) -> &mut RunState<'a, 'o>;

    /// Starts the jobs that can start. Returns true if no job is left.
    ///
    /// # Errors
    /// The run cannot continue.
    fn start(&mut self) -> io::Result<bool>;

    /// Takes jobs that were held in reserve; the state has them as wanted. Returns true if no job is left.
    ///
    /// # Errors
    /// The run cannot continue.
    fn release(&mut self, jobs: &[usize]) -> io::Result<bool>;

    /// Waits for an input or until something is due, and carries it out. Returns true if no job is left, or if the jobs that
    /// are left are left to a batch system.
    ///
    /// # Errors
    /// The run cannot continue.
    fn advance(&mut self) -> io::Result<bool>;

    /// Starts no more jobs; running jobs continue. Returns true if no job is left.
    fn stop(&mut self) -> bool;

    /// True if no more jobs are started.
    fn is_stopping(&self) -> bool;

    /// True if jobs can be released while others run. Otherwise decisions are made when all jobs have ended.
    fn takes_jobs(&self) -> bool {
        true
    }
}

/// Runs the jobs of an executor, and the jobs that the planner adds, until no more follow.
pub(super) fn drive<'a, 'o: 'a>(executor: &mut dyn Executor<'a, 'o>, control: Control<'_>) -> io::Result<Summary> {
    let start = Instant::now();
    let Control { signals, rounds } = control;
    if let Some(signals) = signals {
        signals.forward(executor.state().sender.clone())?;
    }
    let mut decisions = Decisions { executor, planner: rounds };
    let mut over = decisions.decide(false)?;
    over = decisions.executor.start()? || over;
    over = decisions.is_over(over)?;
    while !over {
        over = decisions.executor.advance()?;
        over = decisions.is_over(over)?;
    }
    let state = decisions.executor.state();
    state.summary.seconds = start.elapsed().as_secs_f64();
    let summary = state.summary.clone();
    // A run whose jobs continue in a batch system has not ended.
    if !summary.detached {
        state.tell(&RunEvent::Ended(summary.clone()));
    }
    Ok(summary)
}

/// Decisions about further jobs.
struct Decisions<'e, 'p, 'a, 'o> {
    executor: &'e mut dyn Executor<'a, 'o>,
    planner: Option<&'p mut dyn RoundPlanner>,
}

impl<'a, 'o: 'a> Decisions<'_, '_, 'a, 'o> {
    /// True if the run is over: `over` is true if the jobs so far are, and no other jobs follow.
    fn is_over(&mut self, mut over: bool) -> io::Result<bool> {
        loop {
            if self.executor.state().has_ended_jobs() && (over || self.executor.takes_jobs()) {
                over = self.decide(over)?;
            }
            if !over {
                return Ok(false);
            }
            if !self.goes_on()? {
                return Ok(true);
            }
            over = false;
        }
    }

    /// Begins another round after all jobs have ended, if there is one.
    fn goes_on(&mut self) -> io::Result<bool> {
        while !self.is_ending() {
            let Some(planner) = &mut self.planner else { return Ok(false) };
            let added = planner.next(&self.executor.state().lost)?;
            if added.is_empty() {
                return Ok(false);
            }
            if !self.add(added)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Carries out the decisions that follow from the jobs that have ended; returns whether the run is over then.
    fn decide(&mut self, mut over: bool) -> io::Result<bool> {
        loop {
            let ended_jobs = self.executor.state().take_ended();
            if self.is_ending() {
                return Ok(over);
            }
            let Some(planner) = &mut self.planner else { return Ok(over) };
            match planner.ended(&ended_jobs, &self.executor.state().lost) {
                Ok(released) => {
                    for (decision, text) in released.decided {
                        self.executor.state().tell(&RunEvent::Decided { decision, text });
                    }
                    if !released.added.is_empty() {
                        over = self.add(released.added)?;
                    }
                }
                Err(error) => {
                    self.executor.state().summary.broken = Some(format!("a decision cannot be made: {error}"));
                    return Ok(self.executor.stop() || over);
                }
            }
            if !self.executor.state().has_ended_jobs() {
                return Ok(over);
            }
        }
    }

    /// True if nothing further is wanted.
    fn is_ending(&mut self) -> bool {
        let summary = &self.executor.state().summary;
        let is_over = summary.interrupted.is_some() || summary.broken.is_some() || summary.detached;
        is_over || self.executor.is_stopping()
    }

    /// Adds jobs of the reserve to the run; returns whether the run is over nevertheless.
    fn add(&mut self, added: Vec<Addition>) -> io::Result<bool> {
        let jobs: Vec<usize> = added.iter().map(|addition| addition.job.index()).collect();
        for Addition { job, because } in added {
            self.executor.state().tell(&RunEvent::Added { job: job.index(), because });
        }
        self.executor.release(&jobs)
    }
}
