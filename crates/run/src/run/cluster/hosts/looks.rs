//! Slow polls of the agent: of the list of hosts, and of the jobs of processes that have ended.

use super::{
    agent::{Agent, give_up},
    members::{self, HostState, Members, States},
    place::PlaceId,
    shared::{HostLink, Link, State},
    take_over,
};

impl Agent {
    /// Polls the list of hosts, and the jobs of processes that have ended.
    pub(super) fn look(&mut self, state: &mut State) {
        let changed = members::changed(&self.shared.opening.results);
        if changed != self.members {
            self.members = changed;
            self.change_members(state);
        }
        for place in 0..state.queue.places.len() {
            let empty = state.queue.places[place].leaving && state.queue.count_on(place) == 0;
            if let Some(Link::Host(link)) = state.links.get_mut(place).filter(|_| empty) {
                link.connection = None;
            }
        }
        take_over(&self.shared, state);
        give_up(state);
        let states = states_of(state);
        if self.states.as_ref() != Some(&states) {
            // Only for `sweep hosts list`.
            let _ = states.write(&self.shared.opening.results);
            self.states = Some(states);
        }
    }

    fn change_members(&self, state: &mut State) {
        let members = match Members::read(&self.shared.opening.results) {
            Ok(members) => members,
            Err(error) => return state.news.push(error.to_string()),
        };
        let hosts = members.of(&self.shared.settings.hosts);
        for place in 0..state.queue.places.len() {
            let Link::Host(link) = &state.links[place] else { continue };
            let stays = hosts.contains(&link.host) && link.connection.is_some();
            if !stays && !state.queue.places[place].leaving {
                let name = &state.queue.places[place].name;
                state.news.push(format!("{name} gets no new jobs; the jobs that run there finish there"));
                state.queue.places[place].leaving = true;
            }
        }
        for host in hosts {
            let is_known = |place: &PlaceId| matches!(&state.links[*place], Link::Host(link) if link.host == host && link.connection.is_some());
            let place = (0..state.links.len()).find(is_known);
            match place {
                Some(place) => state.queue.places[place].leaving = false,
                None => {
                    state.news.push(format!("{} joins", host.host));
                    if let Err(error) = self.shared.open_host(state, host) {
                        state.news.push(error.to_string());
                    }
                }
            }
        }
    }
}

/// The hosts for `sweep hosts list`.
fn states_of(state: &State) -> States {
    let places = state.queue.places.iter().zip(&state.links).enumerate();
    let hosts = places.map(|(id, (place, link))| {
        let ((used_cpus, used_gpus), limits) = (place.used(), place.limits());
        let state_word = match () {
            () if place.refused().is_some() => "refused",
            () if place.leaving => "leaving",
            () if place.is_up() => "connected",
            () if place.is_new() => "connecting",
            () => "unreachable",
        };
        let system = match link {
            Link::Host(HostLink { probe: Some(probe), .. }) => probe.system.clone(),
            _ => String::new(),
        };
        HostState {
            host: place.name.clone(),
            state: state_word.to_owned(),
            cpus: (used_cpus, limits.map_or(0, |limits| limits.cpus)),
            gpus: (used_gpus, limits.map_or(0, |limits| limits.gpus)),
            jobs: state.queue.count_on(id),
            about: place.refused().map_or(system, str::to_owned),
        }
    });
    States::of_this_process(hosts.collect())
}
