//! Clients by their addresses, and the event streams that each has open. A stream stays open, so their number is limited, and other
//! requests of all clients are still served.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The open event streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Maximum number of streams of all clients together.
    most: usize,
    /// Maximum number of streams of one client.
    of_one: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// The client of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: IpAddr,
    streams: Arc<Streams>,
}

/// The right to an open stream, which ends with this value.
#[derive(Debug)]
pub(crate) struct OpenStream(Client);

impl Streams {
    /// Half of the connections for streams, and half of these for one client.
    pub(crate) fn of_connections(connections: usize) -> Arc<Self> {
        let (most, of_one) = ((connections / 2).max(1), (connections / 4).max(1));
        Arc::new(Self { most, of_one, open: Mutex::default() })
    }

    /// The client at an address.
    pub(crate) fn client(self: &Arc<Self>, address: IpAddr) -> Client {
        Client { address: address.to_canonical(), streams: Arc::clone(self) }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Opens another stream; returns `None` if the limit of all clients, or of this one, is reached.
    pub(crate) fn stream(&self) -> Option<OpenStream> {
        let mut counts = self.streams.open();
        let all: usize = counts.values().sum();
        let own_count = counts.get(&self.address).copied().unwrap_or(0);
        if all >= self.streams.most || own_count >= self.streams.of_one {
            return None;
        }
        counts.insert(self.address, own_count + 1);
        Some(OpenStream(self.clone()))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.0.streams.open();
        let own_count = counts.get(&self.0.address).copied().unwrap_or(0);
        if own_count > 1 {
            counts.insert(self.0.address, own_count - 1);
        } else {
            counts.remove(&self.0.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_streams_to_others_and_all_leave_connections() {
        let streams = Streams::of_connections(8);
        let client = |last: u8| streams.client(IpAddr::from([127, 0, 0, last]));
        let first = [client(1).stream(), client(1).stream()];
        assert!(first.iter().all(Option::is_some) && client(1).stream().is_none());
        let second = [client(2).stream(), client(2).stream()];
        assert!(second.iter().all(Option::is_some) && client(3).stream().is_none(), "half of the connections");
        drop(first);
        assert!(client(3).stream().is_some());
        let mapped = streams.client("::ffff:127.0.0.2".parse().unwrap());
        assert!(mapped.stream().is_none(), "the same client");
        drop(second);
        assert!(mapped.stream().is_some() && streams.open().is_empty());
        assert!(Streams::of_connections(1).client(IpAddr::from([127, 0, 0, 1])).stream().is_some());
    }
}
