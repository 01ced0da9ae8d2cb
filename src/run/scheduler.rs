//! Which job starts when: a pure function of what has happened. No clock, no process, no disk.

use std::collections::BTreeSet;

/// Decides what starts, what is skipped, and when a run is over.
#[derive(Debug)]
pub struct Scheduler {
    jobs: Vec<Node>,
    ready: BTreeSet<usize>,
    free_cpus: usize,
    free_jobs: usize,
    open: usize,
    running: usize,
    stopping: bool,
    fail_fast: bool,
    over: bool,
}

/// What the scheduler knows of a job.
#[derive(Debug, Clone, Default)]
pub struct JobSpec {
    /// The jobs that it needs, by index.
    pub needs: Vec<usize>,
    /// The cores that it takes.
    pub cpus: usize,
    /// Whether it is done already.
    pub cached: bool,
}

/// What there is to share.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Cores.
    pub cpus: usize,
    /// Jobs at once.
    pub jobs: usize,
    /// Whether the first failure stops the run.
    pub fail_fast: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The run begins.
    Begin,
    /// A started job has a result.
    Done(usize),
    /// A started job has none and will not get one.
    Failed(usize),
    /// A started job is being run by another process: it gives its slots back and waits.
    Busy(usize),
    /// The other process is done with a job, or gone.
    Free(usize),
    /// The user wants no more starts.
    Stop,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start a job on this many cores.
    Start {
        /// The job.
        job: usize,
        /// Its cores.
        cpus: usize,
    },
    /// A job cannot run any more.
    Skip {
        /// The job.
        job: usize,
        /// Why.
        because: Reason,
    },
    /// Everything has ended.
    Finish,
}

/// Why a job is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A job that it needs failed or was skipped.
    Needs(usize),
    /// The run was stopped.
    Stopped,
}

#[derive(Debug)]
struct Node {
    waiting_for: usize,
    dependents: Vec<usize>,
    cpus: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
    /// Failed or skipped.
    Lost,
}

impl Scheduler {
    /// A scheduler for these jobs, each of which comes after the jobs that it needs. A job that wants more cores than
    /// there are gets all of them.
    pub fn new(specs: &[JobSpec], limits: Limits) -> Self {
        let cpus = limits.cpus.max(1);
        let mut jobs: Vec<Node> = specs
            .iter()
            .map(|spec| Node {
                waiting_for: 0,
                dependents: Vec::new(),
                cpus: spec.cpus.clamp(1, cpus),
                state: if spec.cached { State::Done } else { State::Waiting },
            })
            .collect();
        for (index, spec) in specs.iter().enumerate() {
            for need in spec.needs.iter().copied().filter(|need| !specs[*need].cached) {
                jobs[index].waiting_for += 1;
                jobs[need].dependents.push(index);
            }
        }
        let ready = (0..jobs.len())
            .filter(|index| jobs[*index].state == State::Waiting && jobs[*index].waiting_for == 0)
            .collect();
        let open = jobs.iter().filter(|job| job.state == State::Waiting).count();
        Self {
            jobs,
            ready,
            free_cpus: cpus,
            free_jobs: limits.jobs.max(1),
            open,
            running: 0,
            stopping: false,
            fail_fast: limits.fail_fast,
            over: false,
        }
    }

    /// What follows from an event. After [`Action::Finish`] nothing follows from anything.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.over {
            return actions;
        }
        match event {
            Event::Begin => {}
            Event::Done(job) => {
                if self.end(job, State::Done) {
                    for dependent in std::mem::take(&mut self.jobs[job].dependents) {
                        let node = &mut self.jobs[dependent];
                        node.waiting_for -= 1;
                        if node.waiting_for == 0 && node.state == State::Waiting {
                            self.ready.insert(dependent);
                        }
                    }
                }
            }
            Event::Failed(job) => {
                if self.end(job, State::Lost) {
                    self.skip_dependents(job, &mut actions);
                    if self.fail_fast {
                        self.stop(&mut actions);
                    }
                }
            }
            Event::Busy(job) => {
                if self.end(job, State::Waiting) {
                    self.open += 1;
                    if self.stopping {
                        self.skip(job, Reason::Stopped, &mut actions);
                    }
                }
            }
            Event::Free(job) => {
                if self.jobs[job].state == State::Waiting && self.jobs[job].waiting_for == 0 {
                    self.ready.insert(job);
                }
            }
            Event::Stop => self.stop(&mut actions),
        }
        self.start(&mut actions);
        if self.open == 0 && self.running == 0 {
            self.over = true;
            actions.push(Action::Finish);
        }
        actions
    }

    /// Takes a running job's slots back; `false` if it was not running.
    fn end(&mut self, job: usize, state: State) -> bool {
        let node = &mut self.jobs[job];
        if node.state != State::Running {
            return false;
        }
        node.state = state;
        self.free_cpus += node.cpus;
        self.free_jobs += 1;
        self.running -= 1;
        true
    }

    /// Starts what fits, in the plan's order. A job that does not fit holds back those behind it, so that a wide job is
    /// not starved by narrow ones.
    fn start(&mut self, actions: &mut Vec<Action>) {
        while let Some(job) = self.ready.first().copied() {
            let cpus = self.jobs[job].cpus;
            if self.free_jobs == 0 || cpus > self.free_cpus {
                break;
            }
            self.ready.remove(&job);
            self.jobs[job].state = State::Running;
            self.free_cpus -= cpus;
            self.free_jobs -= 1;
            self.open -= 1;
            self.running += 1;
            actions.push(Action::Start { job, cpus });
        }
    }

    fn skip_dependents(&mut self, lost: usize, actions: &mut Vec<Action>) {
        let mut stack = vec![lost];
        while let Some(job) = stack.pop() {
            for dependent in std::mem::take(&mut self.jobs[job].dependents) {
                if self.jobs[dependent].state == State::Waiting {
                    self.skip(dependent, Reason::Needs(job), actions);
                    stack.push(dependent);
                }
            }
        }
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        self.stopping = true;
        for job in 0..self.jobs.len() {
            if self.jobs[job].state == State::Waiting {
                self.skip(job, Reason::Stopped, actions);
            }
        }
    }

    fn skip(&mut self, job: usize, because: Reason, actions: &mut Vec<Action>) {
        self.jobs[job].state = State::Lost;
        self.ready.remove(&job);
        self.open -= 1;
        actions.push(Action::Skip { job, because });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn chain() -> Vec<JobSpec> {
        let job = |needs: &[usize]| JobSpec { needs: needs.to_vec(), cpus: 1, cached: false };
        vec![job(&[]), job(&[0]), job(&[1])]
    }

    const LIMITS: Limits = Limits { cpus: 2, jobs: 2, fail_fast: false };

    #[test]
    fn a_failure_skips_what_needs_it() {
        let mut scheduler = Scheduler::new(&chain(), LIMITS);
        assert_eq!(scheduler.on(Event::Begin), [Action::Start { job: 0, cpus: 1 }]);
        let skip = |job, need| Action::Skip { job, because: Reason::Needs(need) };
        assert_eq!(scheduler.on(Event::Failed(0)), [skip(1, 0), skip(2, 1), Action::Finish]);
    }

    #[test]
    fn cached_needs_count_as_done() {
        let mut specs = chain();
        specs[0].cached = true;
        let mut scheduler = Scheduler::new(&specs, LIMITS);
        assert_eq!(scheduler.on(Event::Begin), [Action::Start { job: 1, cpus: 1 }]);
    }

    #[test]
    fn nothing_to_do_is_over_at_once() {
        assert_eq!(Scheduler::new(&[], LIMITS).on(Event::Begin), [Action::Finish]);
    }

    #[test]
    fn a_job_that_wants_everything_waits_for_everything_and_is_not_overtaken() {
        let job = |cpus| JobSpec { needs: vec![], cpus, cached: false };
        let mut scheduler = Scheduler::new(&[job(1), job(99), job(1)], LIMITS);
        assert_eq!(scheduler.on(Event::Begin), [Action::Start { job: 0, cpus: 1 }]);
        assert_eq!(scheduler.on(Event::Done(0)), [Action::Start { job: 1, cpus: 2 }]);
        assert_eq!(scheduler.on(Event::Done(1)), [Action::Start { job: 2, cpus: 1 }]);
    }

    /// Random graphs (edges go from lower to higher indices), slots, and outcomes.
    fn runs() -> impl Strategy<Value = (Vec<JobSpec>, Limits, Vec<(u8, u8)>)> {
        let specs = (1usize..24).prop_flat_map(|count| {
            let jobs: Vec<_> = (0..count)
                .map(|index| {
                    let needs = proptest::collection::vec(0..index.max(1), 0..4usize.min(index + 1));
                    (needs, 0usize..5, proptest::bool::weighted(0.15)).prop_map(move |(mut needs, cpus, cached)| {
                        needs.retain(|need| *need < index);
                        needs.sort_unstable();
                        needs.dedup();
                        JobSpec { needs, cpus, cached }
                    })
                })
                .collect();
            jobs
        });
        let limits = (1usize..5, 1usize..5, proptest::bool::weighted(0.2)).prop_map(|(cpus, jobs, fail_fast)| Limits {
            cpus,
            jobs,
            fail_fast,
        });
        (specs, limits, proptest::collection::vec(any::<(u8, u8)>(), 64))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn every_job_ends_once_and_slots_hold((specs, limits, choices) in runs()) {
            let mut scheduler = Scheduler::new(&specs, limits);
            let mut running: BTreeMap<usize, usize> = BTreeMap::new();
            let mut done: BTreeSet<usize> = (0..specs.len()).filter(|job| specs[*job].cached).collect();
            let mut ended = done.clone();
            let mut choices = choices.into_iter().cycle();
            let mut actions = scheduler.on(Event::Begin);
            let mut stopped = false;
            // What another process is at.
            let mut elsewhere: BTreeSet<usize> = BTreeSet::new();
            for _ in 0..1_000 {
                let mut over = false;
                for action in actions.drain(..) {
                    match action {
                        Action::Start { job, cpus } => {
                            prop_assert!(!stopped, "started after a stop");
                            prop_assert!(specs[job].needs.iter().all(|need| done.contains(need)), "needs first");
                            prop_assert!(!ended.contains(&job) && !elsewhere.contains(&job));
                            prop_assert!(running.insert(job, cpus).is_none());
                        }
                        Action::Skip { job, .. } => {
                            elsewhere.remove(&job);
                            prop_assert!(ended.insert(job) && !running.contains_key(&job));
                        }
                        Action::Finish => over = true,
                    }
                }
                prop_assert!(running.len() <= limits.jobs && running.values().sum::<usize>() <= limits.cpus);
                if over {
                    prop_assert!(running.is_empty());
                    prop_assert_eq!(ended.len(), specs.len(), "every job ends");
                    return Ok(());
                }
                prop_assert!(!running.is_empty() || !elsewhere.is_empty(), "neither running nor over: a deadlock");
                let Some((which, what)) = choices.next() else { break };
                if running.is_empty() || (what % 4 == 0 && !elsewhere.is_empty()) {
                    let job = elsewhere.pop_first().unwrap();
                    actions = scheduler.on(Event::Free(job));
                    continue;
                }
                let job = *running.keys().nth(usize::from(which) % running.len()).unwrap();
                actions = match what {
                    0..=9 => {
                        stopped = true;
                        scheduler.on(Event::Stop)
                    }
                    10..=59 => {
                        running.remove(&job);
                        ended.insert(job);
                        stopped |= limits.fail_fast;
                        scheduler.on(Event::Failed(job))
                    }
                    60..=89 => {
                        running.remove(&job);
                        elsewhere.insert(job);
                        scheduler.on(Event::Busy(job))
                    }
                    _ => {
                        running.remove(&job);
                        ended.insert(job);
                        done.insert(job);
                        scheduler.on(Event::Done(job))
                    }
                };
            }
            prop_assert!(false, "does not terminate");
        }
    }
}
