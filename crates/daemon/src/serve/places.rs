//! Places for connections: so many in all, and so many for one client.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::Limits;

/// The places of one listener; clones are the same ones.
#[derive(Clone, Debug)]
pub(super) struct Places {
    connections: usize,
    per_client: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<IpAddr, usize>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All places are taken.
    All,
    /// The client has as many as it may.
    Client,
}

/// Free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    client: IpAddr,
    taken: Arc<Mutex<Taken>>,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            connections: limits.connections,
            per_client: limits.per_client,
            taken: Arc::default(),
        }
    }

    pub(super) fn take(&self, client: IpAddr) -> Result<Place, Full> {
        // On a socket for both families, clients of IPv4 have mapped addresses.
        let client = client.to_canonical();
        let mut taken = self.taken.lock();
        if taken.all >= self.connections {
            return Err(Full::All);
        }
        let own = taken.by.entry(client).or_default();
        if *own >= self.per_client {
            return Err(Full::Client);
        }
        *own += 1;
        taken.all += 1;
        Ok(Place {
            client,
            taken: self.taken.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by.get_mut(&self.client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_and_nothing_is_kept_of_clients_that_have_gone() {
        let places = Places::new(&Limits {
            connections: 3,
            per_client: 2,
            ..Limits::default()
        });
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let first = places.take(one).unwrap();
        let second = places.take(mapped).unwrap();
        assert_eq!(places.take(one).unwrap_err(), Full::Client);
        let third = places.take(other).unwrap();
        assert_eq!(places.take(other).unwrap_err(), Full::All);
        drop(first);
        let fourth = places.take(one).unwrap();
        drop((second, third, fourth));
        assert_eq!(places.taken.lock().all, 0);
        assert!(places.taken.lock().by.is_empty());
    }
}
