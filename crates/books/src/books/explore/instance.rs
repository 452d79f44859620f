//! One extender of the model: what the product does around the books, in threads instead of tasks, with a
//! mistake if one is planted.

mod bind;
mod watch;

use std::fmt::Display;

use shuttle::rand::Rng;
use shuttle::sync::{Arc, Mutex, MutexGuard, Weak};
use shuttle::thread::{self, JoinHandle};

use super::api::{Api, lock};
use super::cluster::Plan;
use crate::Books;

/// A mistake that an extender could make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A bind whose outcome is unknown counts as failed.
    FreesOnUnknown,
    /// A pod counts as ended when its deletion begins.
    FreesOnDeletion,
    /// Binds open while binds of the previous term may still take effect.
    OpensWithoutFences,
    /// Binds open without a new list.
    OpensWithoutList,
    /// Nothing is booked until the bind has succeeded.
    BooksAfterBind,
    /// A bind takes effect even if the pod has changed since.
    BindsAnyVersion,
    /// A doubt is cleared by a read, which does not prevent a bind from taking effect later.
    ReadsInsteadOfFencing,
    /// A fence that was not answered counts as written, so that what a read shows after it is final.
    BelievesUnansweredFences,
    /// A conflict counts as final even if the pod shows no reason for it.
    BelievesConflicts,
    /// A read is accepted although something newer is known.
    TrustsStaleReads,
    /// What a read shows counts as seen by the watch.
    ConfirmsByRead,
    /// Pods that a list cannot know are not read.
    SkipsReads,
    /// A list ends every booking that is not in it.
    ListEndsUnconfirmed,
    BindsWhenDeposed,
    /// Annotations that choose cards are also read on a bound pod. If they make no sense, the pod asks for nothing.
    ReadsChoicesOfBound,
    /// A pod whose request has become invalid loses the booking of a bind under way.
    FreesOnInvalid,
    /// An agent's report of containers that have outlived their pods is ignored.
    IgnoresHeld,
    /// Containers that have outlived their pods are booked, but take no room.
    HeldTakesNoRoom,
    /// The room of containers that have outlived their pod is freed when the pod's object is deleted.
    FreesHeldWithPod,
}

pub(super) struct Instance {
    number: usize,
    api: Arc<Api>,
    books: Mutex<Books>,
    plan: Plan,
    /// Work in the background, which the test waits for at the end.
    background: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) fn chance(one_in: u32) -> bool {
    shuttle::rand::thread_rng().gen_ratio(1, one_in)
}

/// Gives other threads some turns, a different number each time.
pub(super) fn delay(most: u32) {
    for _ in 0..shuttle::rand::thread_rng().gen_range(0..most) {
        thread::yield_now();
    }
}

impl Instance {
    pub(super) fn new(number: usize, api: Arc<Api>, books: Books, plan: Plan) -> Arc<Self> {
        let everyone = api.extenders.clone();
        let instance = Arc::new(Self {
            number,
            api,
            books: Mutex::new(books),
            plan,
            background: Mutex::default(),
        });
        lock(&everyone).push(Arc::downgrade(&instance));
        instance
    }

    fn has(&self, fault: Fault) -> bool {
        self.plan.fault == Some(fault)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }

    /// Changes the books, and compares them with the truth.
    fn change<T>(&self, what: impl Display, change: impl FnOnce(&mut Books) -> T) -> T {
        let changed = {
            let mut books = self.books();
            let (number, story) = (self.number, &self.api.story);
            story.tell(format!("extender {number} {what}"));
            change(&mut books)
        };
        self.check();
        changed
    }

    /// While this extender may bind, every pod and every reported container that holds a card must be in its books.
    pub(super) fn check(&self) {
        let truth = self.api.truth();
        if !truth.may_bind(self.number) {
            return;
        }
        let books = self.books();
        for (pod, node, _) in truth.holders() {
            let booking = books.ledger().booking(pod.as_str());
            if booking.is_none_or(|booking| booking.node.as_str() != node) {
                let what = format!("{pod} runs on {node}, but is booked as {booking:?}");
                self.api.story.broken(&what);
            }
        }
        for (pod, node, _) in truth.told(self.number) {
            if books.ledger().booking(pod.as_str()).is_none() {
                let what = format!("containers of {pod} run on {node}, but are not booked");
                self.api.story.broken(&what);
            }
        }
    }

    fn check_everyone(&self) {
        let everyone = lock(&self.api.extenders).clone();
        for extender in everyone.iter().filter_map(Weak::upgrade) {
            extender.check();
        }
    }

    /// Waits for everything that was begun.
    pub(super) fn finish(&self) {
        while let Some(work) = self.next_work() {
            work.join().unwrap();
        }
    }

    /// Checks that nothing is left of the pods once all are gone and all events were seen.
    pub(super) fn check_empty(&self) {
        let story = &self.api.story;
        let books = self.books();
        let booked: Vec<_> = books.ledger().bookings().collect();
        if !booked.is_empty() {
            story.broken(&format!("{booked:?} stay booked for ever"));
        }
        let left = (&books.pods, &books.attempts, &books.reads);
        let empty = left.0.count() == 0 && left.1.is_empty() && left.2.is_empty();
        if !empty {
            story.broken(&format!("{left:?} are never forgotten"));
        }
    }

    fn next_work(&self) -> Option<JoinHandle<()>> {
        lock(&self.background).pop()
    }

    fn in_background(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let instance = self.clone();
        let work = thread::spawn(move || work(&instance));
        lock(&self.background).push(work);
    }
}
