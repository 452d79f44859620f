//! Places for connections: limited in total, and for each client.
//!
//! When all are taken, a client with few connections gets a place of the client with the most: otherwise a few clients
//! could keep all others out, including the kubelet's probes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::limits::Limits;

/// Displaced connections stay open for a moment. They may exceed the total by at most one part in this many.
const PART_LEAVING: usize = 16;

/// The places of one listener; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places {
    connections: usize,
    per_client: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Includes connections that were displaced and have not closed yet.
    all: usize,
    /// How many connections have come so far: numbers are in the order of arrival.
    came: u64,
    by: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
    /// The clients by how many places they hold.
    ranks: BTreeSet<(usize, IpAddr)>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All places are taken.
    All,
    /// The client has as many places as it may have.
    Client,
}

/// One taken place, freed when dropped.
#[derive(Debug)]
pub(super) struct Place {
    client: IpAddr,
    number: u64,
    taken: Arc<Mutex<Taken>>,
    displaced: CancellationToken,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            connections: limits.connections,
            per_client: limits.per_client,
            taken: Arc::default(),
        }
    }

    /// Takes a place; also returns the client that lost it, if none was free.
    pub(super) fn take(&self, client: IpAddr) -> Result<(Place, Option<IpAddr>), Full> {
        // On a dual-stack socket, IPv4 clients have mapped addresses.
        let client = client.to_canonical();
        let mut taken = self.taken.lock();
        let own = taken.by.get(&client).map_or(0, BTreeMap::len);
        if own >= self.per_client {
            return Err(Full::Client);
        }
        let from = if taken.all < self.connections {
            None
        } else {
            let leaving = (self.connections / PART_LEAVING).max(1);
            if taken.all >= self.connections.saturating_add(leaving) {
                return Err(Full::All);
            }
            Some(taken.displace_for(own).ok_or(Full::All)?)
        };
        let place = Place {
            client,
            number: taken.came,
            taken: self.taken.clone(),
            displaced: CancellationToken::new(),
        };
        taken.came += 1;
        taken.all += 1;
        taken.change(client, |places| {
            places.insert(place.number, place.displaced.clone());
        });
        Ok((place, from))
    }
}

impl Taken {
    /// Ends the oldest connection of the client with the most connections. It ends none if the new client would then
    /// have at least as many as that client had, because the two would displace each other forever. So no client loses
    /// its only connection.
    fn displace_for(&mut self, own: usize) -> Option<IpAddr> {
        let (most, client) = self.ranks.last().copied()?;
        if own + 1 >= most {
            return None;
        }
        self.change(client, |places| {
            if let Some((_, oldest)) = places.pop_first() {
                oldest.cancel();
            }
        });
        Some(client)
    }

    /// Changes the places of a client and updates its rank. Clients without places are removed.
    fn change(
        &mut self,
        client: IpAddr,
        change: impl FnOnce(&mut BTreeMap<u64, CancellationToken>),
    ) {
        let places = self.by.entry(client).or_default();
        self.ranks.remove(&(places.len(), client));
        change(places);
        if places.is_empty() {
            self.by.remove(&client);
        } else {
            self.ranks.insert((places.len(), client));
        }
    }
}

impl Place {
    /// Waits until the place is given to another client.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        taken.change(self.client, |places| {
            places.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(connections: usize, per_client: usize) -> Places {
        Places::new(&Limits {
            connections,
            per_client,
            ..Limits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    impl Places {
        fn free(&self, client: IpAddr) -> Place {
            let (place, from) = self.take(client).unwrap();
            assert_eq!(from, None);
            place
        }
    }

    #[test]
    fn a_place_is_free_again_and_nothing_is_kept_of_clients_that_have_gone() {
        let places = places(3, 2);
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        let first = places.free(address(1));
        let second = places.free(mapped);
        assert_eq!(places.take(address(1)).unwrap_err(), Full::Client);
        let third = places.free(address(2));
        assert_eq!(places.take(address(2)).unwrap_err(), Full::All);
        drop(first);
        let fourth = places.free(address(1));
        drop((second, third, fourth));
        let taken = places.taken.lock();
        assert_eq!(taken.all, 0);
        assert!(taken.by.is_empty() && taken.ranks.is_empty());
    }

    #[test]
    fn when_all_are_taken_the_client_with_most_loses_its_oldest_to_one_with_few() {
        let places = places(5, 3);
        let many = [1, 1, 1].map(|last| places.free(address(last)));
        let some = [2, 2].map(|last| places.free(address(last)));
        let (few, from) = places.take(address(3)).unwrap();
        assert_eq!(from, Some(address(1)));
        assert!(many[0].displaced.is_cancelled());
        assert!(
            many[1..]
                .iter()
                .chain(&some)
                .all(|place| !place.displaced.is_cancelled())
        );
        assert_eq!(
            places.take(address(4)).unwrap_err(),
            Full::All,
            "one is still leaving"
        );
        drop(many);
        let taken = places.taken.lock();
        assert_eq!(taken.all, 3);
        assert_eq!(
            taken.ranks,
            BTreeSet::from([(1, few.client), (2, address(2))])
        );
    }

    #[test]
    fn clients_that_hold_as_many_do_not_displace_each_other() {
        let places = places(3, 3);
        let two = [1, 1].map(|last| places.free(address(last)));
        let one = places.free(address(2));
        assert_eq!(places.take(address(2)).unwrap_err(), Full::All);
        assert!(!one.displaced.is_cancelled());
        let (third, _) = places.take(address(3)).unwrap();
        drop(two);
        let _fourth = places.free(address(4));
        assert_eq!(places.take(address(5)).unwrap_err(), Full::All);
        assert!(!one.displaced.is_cancelled() && !third.displaced.is_cancelled());
    }
}
