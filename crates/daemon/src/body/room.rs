//! Memory for request bodies, counted in bytes that have actually arrived.
//!
//! No request waits for a slow client: when the room is used up, the body that has been arriving for longest is
//! given up. Requests do wait for bodies that are complete, because the work on them ends by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Clones share the same room.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    books: Mutex<Books>,
    /// Notified when room becomes free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Books {
    used: usize,
    /// The part of `used` that belongs to bodies that were given up and will soon be freed.
    leaving: usize,
    /// How many bodies have arrived so far: numbers are in the order of arrival.
    came: u64,
    /// Bodies of which a part has arrived and a part is missing.
    arriving: BTreeMap<u64, Arriving>,
}

#[derive(Debug)]
struct Arriving {
    bytes: usize,
    given_up: CancellationToken,
}

/// One body's part of the room, freed when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    room: Room,
    number: u64,
    bytes: usize,
    given_up: CancellationToken,
}

/// The room was needed for bodies that arrived later.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("dropped to make room for later requests")]
pub(super) struct GivenUp;

impl Room {
    /// A body begins to arrive.
    pub(super) fn enter(&self) -> Claim {
        let mut books = self.0.books.lock();
        books.came += 1;
        Claim {
            room: self.clone(),
            number: books.came,
            bytes: 0,
            given_up: CancellationToken::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.0.books.lock().used
    }
}

impl Books {
    /// Takes the bytes if there is room for them; otherwise makes as much room as it can.
    fn take(&mut self, claim: &Claim, bytes: usize, capacity: usize) -> Result<bool, GivenUp> {
        let number = claim.number;
        if claim.bytes > 0 && !self.arriving.contains_key(&number) {
            return Err(GivenUp);
        }
        if self.used.saturating_add(bytes) <= capacity {
            self.used += bytes;
            let arriving = self.arriving.entry(number).or_insert_with(|| Arriving {
                bytes: 0,
                given_up: claim.given_up.clone(),
            });
            arriving.bytes += bytes;
            return Ok(true);
        }
        while (self.used - self.leaving).saturating_add(bytes) > capacity {
            // If no other body is arriving, this one can only wait for those that are being processed.
            if self.arriving.len() == 1 && self.arriving.contains_key(&number) {
                break;
            }
            let Some((_, oldest)) = self.arriving.pop_first() else {
                break;
            };
            self.leaving += oldest.bytes;
            oldest.given_up.cancel();
        }
        Ok(false)
    }
}

impl Claim {
    /// Waits for room for more bytes of this body.
    pub(super) async fn grow(&mut self, bytes: usize, capacity: usize) -> Result<(), GivenUp> {
        let room = self.room.clone();
        loop {
            let freed = room.0.freed.notified();
            let taken = room.0.books.lock().take(self, bytes, capacity)?;
            if taken {
                self.bytes += bytes;
                return Ok(());
            }
            tokio::select! {
                () = freed => {}
                () = self.given_up.cancelled() => return Err(GivenUp),
            }
        }
    }

    /// Waits until this body is given up for others.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    /// The body is complete, and cannot be given up any more.
    pub(super) fn whole(&mut self) -> Result<(), GivenUp> {
        let arrived = self.room.0.books.lock().arriving.remove(&self.number);
        if arrived.is_none() && self.bytes > 0 {
            return Err(GivenUp);
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut books = self.room.0.books.lock();
        books.used = books.used.saturating_sub(self.bytes);
        books.arriving.remove(&self.number);
        if self.given_up.is_cancelled() {
            books.leaving = books.leaving.saturating_sub(self.bytes);
        }
        drop(books);
        self.room.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn grown(claim: &mut Claim, bytes: usize) -> Option<Result<(), GivenUp>> {
        claim.grow(bytes, 100).now_or_never()
    }

    #[test]
    fn a_body_that_has_been_arriving_for_longest_makes_room_for_others() {
        let room = Room::default();
        let [mut first, mut second, mut third] = [room.enter(), room.enter(), room.enter()];
        assert_eq!(grown(&mut first, 50), Some(Ok(())));
        assert_eq!(grown(&mut second, 50), Some(Ok(())));
        assert_eq!(grown(&mut third, 30), None);
        assert!(first.given_up().now_or_never().is_some());
        assert!(second.given_up().now_or_never().is_none());
        assert_eq!(first.whole(), Err(GivenUp));
        assert_eq!(grown(&mut first, 1), Some(Err(GivenUp)));
        // While the first body's bytes are still being freed, no other body is given up for the same room.
        assert_eq!(grown(&mut third, 30), None);
        assert!(second.given_up().now_or_never().is_none());
        drop(first);
        assert_eq!(grown(&mut third, 30), Some(Ok(())));
        assert_eq!(room.used(), 80);
        drop((second, third));
        assert_eq!(room.used(), 0);
        assert_eq!(room.0.books.lock().leaving, 0);
    }

    #[test]
    fn bodies_that_came_whole_are_waited_for() {
        let room = Room::default();
        let [mut whole, mut next] = [room.enter(), room.enter()];
        assert_eq!(grown(&mut whole, 90), Some(Ok(())));
        assert_eq!(whole.whole(), Ok(()));
        assert_eq!(grown(&mut next, 10), Some(Ok(())));
        assert_eq!(grown(&mut next, 10), None);
        assert!(whole.given_up().now_or_never().is_none());
        assert!(next.given_up().now_or_never().is_none());
        drop(whole);
        assert_eq!(grown(&mut next, 10), Some(Ok(())));
    }

    #[test]
    fn the_slowest_is_given_up_also_when_it_is_the_one_that_wants_more() {
        let room = Room::default();
        let [mut slow, mut quick] = [room.enter(), room.enter()];
        assert_eq!(grown(&mut slow, 50), Some(Ok(())));
        assert_eq!(grown(&mut quick, 50), Some(Ok(())));
        assert_eq!(grown(&mut slow, 1), Some(Err(GivenUp)));
        assert_eq!(quick.whole(), Ok(()));
    }
}
