//! Places where jobs run: hosts and this machine, with their free resources.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Instant,
};

use crate::{
    plan::Job,
    recipe::ResourceCount,
    run::{
        self, GpuHistory,
        slots::{Demand, Lease, Limits, Slots},
    },
};

/// The number of a place, which it keeps.
pub(super) type PlaceId = usize;

/// The resources that a job needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wants {
    /// Demand regardless of the resources of any place.
    all: Demand,
    /// Cores, if the job declares them.
    cpus: Option<ResourceCount>,
    /// The default resources.
    usual: run::Usual,
}

/// A host, or this machine.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) name: String,
    /// The resources of the place; `None` before its first response.
    room: Option<(Limits, Slots)>,
    link: Link,
    /// Time until which the place gets no new jobs.
    paused: Option<Instant>,
    /// True if the place gets no new jobs anymore.
    pub(super) leaving: bool,
}

/// The connection to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Link {
    /// The place has never responded.
    New,
    Up,
    Lost {
        since: Instant,
    },
    /// The place cannot be used until a user resolves the problem.
    Refused {
        since: Instant,
        reason: String,
    },
}

impl Wants {
    /// Returns the resources that `job` needs.
    pub(super) fn of(job: &Job) -> Self {
        /// More than any job needs.
        const MAX_CPUS: usize = 1 << 12;
        let limits =
            Limits { cpus: MAX_CPUS, gpus: MAX_CPUS, gpu_memory: Vec::new(), memory: u64::MAX, jobs: MAX_CPUS };
        // The GPU memory that earlier jobs used does not apply to the GPUs of another machine.
        let (all, usual) = (run::demand(job, &limits, &GpuHistory::default()), run::Usual::of(job));
        Self { all, cpus: job.resources.cpus, usual }
    }

    #[cfg(test)]
    pub(super) fn asking(all: Demand) -> Self {
        Self { cpus: Some(ResourceCount::whole(all.cpus)), all, usual: run::Usual { cpus: None, gpus: None } }
    }

    /// The job's demand on a host with `limits`.
    fn demand(&self, limits: &Limits) -> Demand {
        let all =
            Demand { gpus: self.usual.gpus.map_or(self.all.gpus, |max_gpus| max_gpus.min(limits.gpus)), ..self.all };
        let own = || self.usual.cores(&limits.clamp(all), limits).max(1);
        let cpus = self.cpus.map_or_else(own, ResourceCount::count);
        Demand { cpus, core_share: self.cpus.and_then(ResourceCount::share), ..all }
    }
}

impl Place {
    pub(super) fn new(name: String) -> Self {
        Self { name, room: None, link: Link::New, paused: None, leaving: false }
    }

    /// Handles the response of a place whose resources are `limits`.
    pub(super) fn connect(&mut self, limits: Limits) {
        self.link = Link::Up;
        if self.room.as_ref().is_none_or(|(known, _)| *known != limits) && self.is_idle() {
            let slots = Slots::new(&limits);
            self.room = Some((limits, slots));
        }
    }

    fn is_idle(&self) -> bool {
        self.room.as_ref().is_none_or(|(_, slots)| slots.is_idle())
    }

    pub(super) fn lose(&mut self, now: Instant) {
        if !matches!(self.link, Link::Lost { .. }) {
            self.link = Link::Lost { since: self.lost_since().unwrap_or(now) };
        }
    }

    /// Marks the place as unusable until a user resolves the problem. Returns true if this is new.
    pub(super) fn refuse(&mut self, reason: String, now: Instant) -> bool {
        let since = self.lost_since().unwrap_or(now);
        let new = !matches!(&self.link, Link::Refused { reason: known, .. } if *known == reason);
        self.link = Link::Refused { since, reason };
        new
    }

    pub(super) fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    pub(super) fn is_new(&self) -> bool {
        self.link == Link::New
    }

    /// Returns the reason why the place cannot be used until a user resolves a problem.
    pub(super) fn refused(&self) -> Option<&str> {
        if let Link::Refused { reason, .. } = &self.link { Some(reason) } else { None }
    }

    pub(super) fn lost_since(&self) -> Option<Instant> {
        match &self.link {
            Link::Lost { since } | Link::Refused { since, .. } => Some(*since),
            Link::New | Link::Up => None,
        }
    }

    pub(super) fn limits(&self) -> Option<&Limits> {
        self.room.as_ref().map(|(limits, _)| limits)
    }

    /// Cores and GPUs that are in use.
    pub(super) fn used(&self) -> (usize, usize) {
        let Some((limits, slots)) = &self.room else { return (0, 0) };
        let (cpus, gpus, _) = slots.free();
        (limits.cpus.saturating_sub(cpus), limits.gpus.saturating_sub(gpus))
    }

    pub(super) fn pause(&mut self, until: Instant) {
        self.paused = Some(until);
    }

    pub(super) fn take(&mut self, demand: &Demand, kept: &BTreeSet<usize>) -> Lease {
        match &mut self.room {
            Some((_, slots)) => slots.take(demand, kept),
            None => Lease::default(),
        }
    }

    /// Takes resources for a job that runs there already, free or not.
    pub(super) fn hold(&mut self, wants: &Wants) -> Option<(Demand, Vec<usize>)> {
        let (limits, slots) = self.room.as_mut()?;
        let demand = limits.clamp(wants.demand(limits));
        let lease = slots.take(&demand, &BTreeSet::new());
        Some((demand, lease.gpus))
    }

    pub(super) fn give_back(&mut self, demand: &Demand, gpus: &[usize]) {
        if let Some((_, slots)) = &mut self.room {
            slots.give_back(demand, gpus);
        }
    }

    fn accepts(&self, now: Instant) -> bool {
        self.is_up() && !self.leaving && self.paused.is_none_or(|until| until <= now)
    }
}

/// Resources that later jobs may take while jobs are placed in their order.
#[derive(Debug)]
pub(super) struct Free {
    /// Places that accept jobs.
    open: BTreeSet<PlaceId>,
    /// GPUs that an earlier job waits for.
    gpus: BTreeMap<PlaceId, BTreeSet<usize>>,
    /// Places whose memory an earlier job waits for.
    memory: HashSet<PlaceId>,
}

impl Free {
    pub(super) fn new(places: &[Place], now: Instant) -> Self {
        let open = places.iter().enumerate().filter(|(_, place)| place.accepts(now)).map(|(id, _)| id);
        Self { open: open.collect(), gpus: BTreeMap::new(), memory: HashSet::new() }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.open.is_empty()
    }

    /// GPUs of a place that an earlier job waits for.
    pub(super) fn kept(&self, place: PlaceId) -> BTreeSet<usize> {
        self.gpus.get(&place).cloned().unwrap_or_default()
    }

    /// Returns the best place for a job, and the resources that the job takes there. A waiting job reserves the resources that
    /// it waits for: later jobs may go first only if they need none of these. `except` are places that the job cannot use.
    pub(super) fn find(
        &mut self,
        places: &[Place],
        wants: &Wants,
        except: &HashSet<PlaceId>,
    ) -> Option<(PlaceId, Demand)> {
        let fitting: Vec<(PlaceId, Demand)> = fitting(places, wants)
            .into_iter()
            .filter(|(id, _)| self.open.contains(id) && !except.contains(id))
            .collect();
        let mut best: Option<(f64, PlaceId, Demand)> = None;
        for (id, demand) in &fitting {
            let Some((limits, slots)) = &places[*id].room else { continue };
            let reserved = demand.memory > 0 && self.memory.contains(id);
            if reserved || !slots.lack_beside(demand, &self.kept(*id)).is_nothing() {
                continue;
            }
            let (cpus, _, _) = slots.free();
            let share = cpus as f64 / limits.cpus.max(1) as f64;
            if best.as_ref().is_none_or(|(other, _, _)| share > *other) {
                best = Some((share, *id, *demand));
            }
        }
        if let Some((_, id, demand)) = best {
            return Some((id, demand));
        }
        for (id, demand) in fitting {
            let Some((_, slots)) = &places[id].room else { continue };
            let kept_gpus = self.kept(id);
            let lack = slots.lack_beside(&demand, &kept_gpus);
            if lack.is_common() {
                self.open.remove(&id);
            }
            if lack.gpus {
                self.gpus.entry(id).or_default().extend(slots.nearest(&demand, &kept_gpus));
            }
            if lack.memory {
                self.memory.insert(id);
            }
        }
        None
    }
}

/// Returns the places with the resources that a job needs, with its demand there. If no place has enough cores or
/// memory, the job takes the available ones, as on a single machine; GPUs are required.
fn fitting(places: &[Place], wants: &Wants) -> Vec<(PlaceId, Demand)> {
    let known = || {
        let known = places.iter().enumerate().filter(|(_, place)| !place.leaving);
        known.filter_map(|(id, place)| Some((id, place.limits()?)))
    };
    let places_that_fit: Vec<(PlaceId, Demand)> = known()
        .map(|(id, limits)| (id, limits, wants.demand(limits)))
        .filter(|(_, limits, demand)| limits.clamp(*demand) == *demand)
        .map(|(id, _, demand)| (id, demand))
        .collect();
    if !places_that_fit.is_empty() || places.iter().any(|place| place.is_new() && !place.leaving) {
        return places_that_fit;
    }
    known()
        .map(|(id, limits)| (id, wants.demand(limits), limits.clamp(wants.demand(limits))))
        .filter(|(_, full_demand, demand)| full_demand.gpus == demand.gpus)
        .map(|(id, _, demand)| (id, demand))
        .collect()
}

/// A reason for waiting that does not pass by itself.
pub(super) const NOWHERE: &str = "no host has enough GPUs";

/// Reason why a job that could start is on no place.
pub(super) fn why(places: &[Place], wants: &Wants) -> String {
    if places.iter().any(|place| place.is_new() && !place.leaving) {
        return "hosts that have not answered yet".to_owned();
    }
    if places.iter().all(|place| !place.is_up() || place.leaving) {
        return "a host that can be reached".to_owned();
    }
    if fitting(places, wants).is_empty() { NOWHERE.to_owned() } else { "free resources".to_owned() }
}
