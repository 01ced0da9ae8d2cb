//! Jobs of the queue, and the events about them.

use std::time::Instant;

use crate::{
    record::Key,
    run::{
        cluster::{
            BatchId, CancelScope, QueuedState,
            hosts::place::{PlaceId, Wants},
        },
        slots::{Demand, Lease},
    },
};

/// A job to add.
#[derive(Debug, Clone)]
pub(in crate::run::cluster::hosts) struct Entry {
    pub(in crate::run::cluster::hosts) id: BatchId,
    pub(in crate::run::cluster::hosts) tag: String,
    pub(in crate::run::cluster::hosts) key: Key,
    pub(in crate::run::cluster::hosts) wants: Wants,
    /// Jobs that must have a result first.
    pub(in crate::run::cluster::hosts) after: Vec<BatchId>,
}

/// A job in the queue.
#[derive(Debug)]
pub(in crate::run::cluster::hosts) struct Job {
    pub(super) id: BatchId,
    pub(super) tag: String,
    pub(super) key: Key,
    pub(super) wants: Wants,
    /// Number of jobs that the job still waits for.
    pub(super) blockers: usize,
    pub(super) dependents: Vec<usize>,
    pub(super) stage: Stage,
    pub(super) copies: Vec<Copy>,
    /// True if the result of the job is not wanted anymore.
    pub(super) canceled: bool,
    /// Another process runs it; the next attempt.
    pub(super) busy: Option<Instant>,
}

/// Stage of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum Stage {
    Waiting,
    Placed,
    Over { state: QueuedState, orphaned: bool },
}

/// A job on a place.
#[derive(Debug)]
pub(in crate::run::cluster::hosts) struct Copy {
    pub(super) place: PlaceId,
    pub(super) phase: Phase,
    /// The lease of the copy on its place; `None` once its process has ended.
    pub(super) holds: Option<(Demand, Vec<usize>)>,
    /// True if the place has been unreachable too long for the copy to count.
    pub(super) stray: bool,
}

/// Phase of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum Phase {
    /// The job is being sent and started.
    Sending,
    /// It is unknown whether the place has the job.
    Unsure,
    Running,
    /// The job's result is being fetched.
    Collecting,
    /// Like [`Phase::Collecting`], from this time on.
    Later(Instant),
    /// The job's result is not wanted: the copy is removed from its place once it has ended.
    Surplus,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum Order {
    /// Start a job.
    Start { key: Key, place: PlaceId, lease: Lease },
    /// Listen to a job that runs there already.
    Follow { key: Key, place: PlaceId },
    /// Fetch the results of a job, and remove them from the place.
    Collect { key: Key, place: PlaceId },
    /// End a job.
    Stop { key: Key, place: PlaceId, scope: CancelScope },
    /// Remove the files that a job has left.
    Forget { key: Key, place: PlaceId },
    /// Ask a place for its jobs.
    List { place: PlaceId },
}

/// A job as a place knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum There {
    Running,
    /// The job has ended, with a record.
    Recorded,
    /// The job has ended without one.
    Ended,
}

/// End of an attempt to start a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum Sent {
    /// The job is on the place, in this state.
    There(There),
    /// It is unknown whether the place has the job.
    Unsure,
    /// Another process runs the job.
    Busy,
    /// The job has a record here already.
    Done,
    /// The place has no room on its disk.
    Full,
    /// The place takes no jobs.
    Refused,
    /// The job cannot be started anywhere, for this reason.
    Never(String),
}

/// End of an attempt to fetch the results of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::run::cluster::hosts) enum Collected {
    /// The job's record is stored.
    Stored,
    /// The job has no record; the value is the place's message about its end.
    Nothing(String),
    /// The job has no record, and the place's disk is full.
    Full,
    /// The place cannot be reached.
    Away,
    /// Another failure that may be temporary.
    Later,
}
