//! A model of the leases of a store that several machines use (`src/store/lease.rs`) and of the commit under one: every
//! interleaving of three engines, one of which may be killed, one stopped for so long that it counts as dead, and one fail in its job.
//!
//! An action is one operation of the file server. The search is exhaustive, so that a fault that it does not find does not exist in the
//! model; `simulate` runs the real code, but not all of its interleavings.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::{BTreeMap, HashMap, VecDeque};

const ENGINES: usize = 3;
/// Dead heirs of one lease, one after another.
const MOST_HEIRS: u8 = 3;

/// A lease: its engine. An engine takes each lease with a file of a new name, and the model ends with its first one.
type Lease = u8;

/// The protocol, or a variant with a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// That of the store.
    Heirs,
    /// Whoever has seen a dead lease removes the lock's name.
    NoHeir,
    /// A commit replaces the record of another holder.
    DoubleCommit,
}

/// The next operation of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Next {
    LookForRecord,
    Link,
    LookAtHolder,
    LinkHeir {
        holder: Lease,
        depth: u8,
    },
    LookAtHeir {
        holder: Lease,
        depth: u8,
    },
    CheckHolder {
        holder: Lease,
        depth: u8,
    },
    Replace {
        holder: Lease,
        depth: u8,
    },
    GiveBack {
        holder: Lease,
        depth: u8,
    },
    RemoveHolder {
        holder: Lease,
    },
    Clean {
        holder: Lease,
        depth: u8,
    },
    LookUnderLock,
    /// The job runs.
    Commit,
    LookBeforeEnd,
    LinkOwnHeir,
    CheckOwn,
    RemoveOwn,
    RemoveOwnHeir,
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    lock: Option<Lease>,
    /// The links of heirs, by the lease and by the number of heirs before.
    heirs: BTreeMap<(Lease, u8), Lease>,
    record: Option<Lease>,
    /// A record was replaced by another one.
    replaced: bool,
    next: [Next; ENGINES],
    killed: [bool; ENGINES],
    silent: [bool; ENGINES],
    /// Was silent at some time.
    disturbed: [bool; ENGINES],
    kills: u8,
    silences: u8,
    failures: u8,
}

impl State {
    fn new() -> Self {
        Self {
            lock: None,
            heirs: BTreeMap::new(),
            record: None,
            replaced: false,
            next: [Next::LookForRecord; ENGINES],
            killed: [false; ENGINES],
            silent: [false; ENGINES],
            disturbed: [false; ENGINES],
            kills: 0,
            silences: 0,
            failures: 0,
        }
    }

    /// True if a lease seems dead to the others.
    fn seems_dead(&self, lease: Lease) -> bool {
        let engine = usize::from(lease);
        self.killed[engine] || self.silent[engine] || self.next[engine] == Next::Done
    }

    /// The states that one operation of an engine, a kill, a stop or a return leads to.
    fn following(&self, protocol: Protocol) -> Vec<Self> {
        let mut following = Vec::new();
        for engine in 0..ENGINES {
            if self.killed[engine] || self.next[engine] == Next::Done {
                continue;
            }
            if self.silent[engine] {
                let mut state = self.clone();
                state.silent[engine] = false;
                following.push(state);
                continue;
            }
            let mut state = self.clone();
            state.step(engine, protocol);
            following.push(state);
            if self.failures == 0 && self.next[engine] == Next::Commit {
                let mut state = self.clone();
                (state.next[engine], state.failures) = (Next::LookBeforeEnd, 1);
                following.push(state);
            }
            if self.kills == 0 {
                let mut state = self.clone();
                (state.killed[engine], state.kills) = (true, 1);
                following.push(state);
            }
            if self.silences == 0 {
                let mut state = self.clone();
                (state.silent[engine], state.disturbed[engine], state.silences) = (true, true, 1);
                following.push(state);
            }
        }
        following
    }

    fn step(&mut self, engine: usize, protocol: Protocol) {
        let me = u8::try_from(engine).unwrap();
        self.next[engine] = match self.next[engine] {
            Next::LookForRecord if self.record.is_some() => Next::Done,
            Next::LookForRecord => Next::Link,
            Next::Link if self.lock.is_none() => {
                self.lock = Some(me);
                Next::LookUnderLock
            }
            Next::Link => Next::LookAtHolder,
            Next::LookAtHolder => match self.lock {
                None => Next::Link,
                Some(holder) if !self.seems_dead(holder) => Next::LookForRecord,
                Some(holder) if protocol == Protocol::NoHeir => Next::RemoveHolder { holder },
                Some(holder) => Next::LinkHeir { holder, depth: 0 },
            },
            Next::RemoveHolder { .. } => {
                self.lock = None;
                Next::Link
            }
            Next::LinkHeir { holder, depth } if self.heirs.contains_key(&(holder, depth)) => {
                Next::LookAtHeir { holder, depth }
            }
            Next::LinkHeir { holder, depth } => {
                self.heirs.insert((holder, depth), me);
                Next::CheckHolder { holder, depth }
            }
            Next::LookAtHeir { holder, depth } => match self.heirs.get(&(holder, depth)) {
                None => Next::LinkHeir { holder, depth },
                Some(heir) if self.seems_dead(*heir) && depth < MOST_HEIRS => {
                    Next::LinkHeir { holder, depth: depth + 1 }
                }
                Some(_) => Next::LookForRecord,
            },
            Next::CheckHolder { holder, depth } if self.lock == Some(holder) => Next::Replace { holder, depth },
            Next::CheckHolder { holder, depth } => Next::GiveBack { holder, depth },
            Next::GiveBack { holder, depth } => {
                self.remove_heir(holder, depth, me);
                Next::Link
            }
            Next::Replace { holder, depth } => {
                if self.remove_heir(holder, depth, me) {
                    self.lock = Some(me);
                    Next::Clean { holder, depth }
                } else {
                    // The next heir has taken this one's link for that of a dead process.
                    Next::Link
                }
            }
            Next::Clean { depth: 0, .. } => Next::LookUnderLock,
            Next::Clean { holder, depth } => {
                self.heirs.remove(&(holder, depth - 1));
                Next::Clean { holder, depth: depth - 1 }
            }
            Next::LookUnderLock if self.record.is_some() => Next::LookBeforeEnd,
            Next::LookUnderLock => Next::Commit,
            Next::Commit => {
                if self.record.is_none() || protocol == Protocol::DoubleCommit {
                    self.replaced |= self.record.is_some();
                    self.record = Some(me);
                }
                Next::LookBeforeEnd
            }
            Next::LookBeforeEnd if self.lock != Some(me) => Next::Done,
            Next::LookBeforeEnd => Next::LinkOwnHeir,
            Next::LinkOwnHeir if self.heirs.contains_key(&(me, 0)) => Next::Done,
            Next::LinkOwnHeir => {
                self.heirs.insert((me, 0), me);
                Next::CheckOwn
            }
            Next::CheckOwn if self.lock == Some(me) => Next::RemoveOwn,
            Next::CheckOwn => Next::RemoveOwnHeir,
            Next::RemoveOwn => {
                self.lock = None;
                Next::RemoveOwnHeir
            }
            Next::RemoveOwnHeir => {
                self.heirs.remove(&(me, 0));
                Next::Done
            }
            Next::Done => Next::Done,
        };
    }

    fn remove_heir(&mut self, holder: Lease, depth: u8, me: Lease) -> bool {
        let is_mine = self.heirs.get(&(holder, depth)) == Some(&me);
        if is_mine {
            self.heirs.remove(&(holder, depth));
        }
        is_mine
    }

    fn violation(&self) -> Option<&'static str> {
        let runs = (0..ENGINES)
            .filter(|engine| self.next[*engine] == Next::Commit && !self.killed[*engine] && !self.disturbed[*engine]);
        // A holder whose job has failed, that is stopped between its look at the lock and the removal of the name, and that goes on while
        // another one takes the lock over, removes the name of that one: no operation of a file server removes a name only if it
        // is still one's own. The job may run twice then, and its first result stays.
        let is_known = self.silences > 0 && self.failures > 0;
        if runs.count() > 1 && !is_known {
            return Some("two engines run the job");
        }
        self.replaced.then_some("a record was replaced")
    }

    fn has_ended(&self) -> bool {
        (0..ENGINES).all(|engine| self.killed[engine] || self.next[engine] == Next::Done)
    }
}

/// All reachable states: their number, and the first violation with the states that lead to it.
fn explore(protocol: Protocol) -> (usize, Option<(&'static str, Vec<State>)>) {
    let mut numbers = HashMap::from([(State::new(), 0)]);
    let mut states = vec![(State::new(), 0)];
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut queue = VecDeque::from([0]);
    let path = |states: &[(State, usize)], mut at: usize| {
        let mut path = vec![states[at].0.clone()];
        while at != 0 {
            at = states[at].1;
            path.push(states[at].0.clone());
        }
        path.reverse();
        path
    };
    while let Some(at) = queue.pop_front() {
        if let Some(violation) = states[at].0.violation() {
            return (states.len(), Some((violation, path(&states, at))));
        }
        for state in states[at].0.following(protocol) {
            let number = *numbers.entry(state.clone()).or_insert_with(|| {
                states.push((state, at));
                before.push(Vec::new());
                queue.push_back(states.len() - 1);
                states.len() - 1
            });
            before[number].push(at);
        }
    }
    // Every run can end: from each state a final one is reached.
    let mut ends = vec![false; states.len()];
    let mut queue: VecDeque<usize> = (0..states.len()).filter(|state| states[*state].0.has_ended()).collect();
    for state in &queue {
        ends[*state] = true;
    }
    while let Some(at) = queue.pop_front() {
        for state in &before[at] {
            if !std::mem::replace(&mut ends[*state], true) {
                queue.push_back(*state);
            }
        }
    }
    let stuck = ends.iter().position(|end| !end).map(|state| ("engines wait for ever", path(&states, state)));
    (states.len(), stuck)
}

#[test]
fn three_engines_with_a_kill_and_a_stop_have_one_holder_one_record_and_an_end() {
    let (states, violation) = explore(Protocol::Heirs);
    println!("{states} states");
    assert!(violation.is_none(), "{violation:#?}");
    assert!(states > 1000);
}

#[test]
fn mistakes_in_the_protocol_are_found() {
    for (protocol, expected) in
        [(Protocol::NoHeir, "two engines run the job"), (Protocol::DoubleCommit, "a record was replaced")]
    {
        let (states, violation) = explore(protocol);
        let (text, path) = violation.unwrap();
        println!("{protocol:?}: {text} after {} operations, {states} states", path.len() - 1);
        assert_eq!(text, expected, "{protocol:?}");
    }
}
