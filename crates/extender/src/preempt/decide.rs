//! Deciding: which pods are evicted for one refused pod, and from which node.

use std::sync::Arc;
use std::time::Duration;

use gpushare_books::preemptions::{NewPreemption, Proposal, StaleProposal, Step, Survey, Terms};
use gpushare_books::{Books, Contention, KnownPod};
use gpushare_core::preempt::Evictor;
use gpushare_core::{NodeName, PodUid, Steps};
use gpushare_kube::budgets::Budgets;
use gpushare_kube::call::CallError;
use gpushare_kube::suits::Suitor;

use super::{beside, now, undecided};
use crate::Extender;
use gpushare_kube::PodRef;

/// How many nodes are examined under one lock at most.
const PORTION: usize = 64;
/// The most steps of the search, on all nodes together.
const STEPS: u32 = 1_000_000;
const READ_BUDGETS_WITHIN: Duration = Duration::from_secs(5);
/// How many nodes that the scheduler did not name are read at most, to see whether the pod could go there.
const MOST_READ: usize = 8;

/// What was found for a pod.
#[derive(Debug)]
enum Found {
    /// The pod fits without an eviction.
    Room,
    /// No pods of lower rank could make room.
    Nobody,
    /// The steps were used up before the search was complete.
    Unknown,
    /// Disruption budgets protect the pods that could make room.
    Protected,
    Proposal(Proposal),
}

impl Extender {
    pub(super) async fn decide(&self, contention: Contention, term: u64) {
        let pod = contention.pod.pod.clone();
        // Filter may refuse a pod before the watch shows it.
        if let Err(error) = self.make_known(&pod).await {
            tracing::warn!(%error, "a refused pod cannot be read; it contends later");
            self.contend_later(&pod);
            return;
        }
        let Some(preemptor) = self.preemptor(&pod) else {
            self.0.books.write().leave_contention(&pod.uid);
            return;
        };
        let unasked = contention.nodes.is_empty();
        let found = match self.find(&preemptor, contention.nodes).await {
            Ok(Found::Nobody) => self.find_to_win_back(&preemptor).await,
            Ok(Found::Unknown) => match self.find_to_win_back(&preemptor).await {
                Ok(Found::Nobody) => Ok(Found::Unknown),
                found => found,
            },
            found => found,
        };
        let outcome = match found {
            Ok(Found::Proposal(proposal)) => {
                if let Some(first) = self.take_up(&preemptor, &proposal, Evictor::Gpushare, term) {
                    self.carry_out(pod, first, term);
                }
                return;
            }
            Ok(Found::Room) => {
                self.0.books.write().leave_contention(&pod.uid);
                "no_need"
            }
            // The scheduler does not call the extender about this pod, so no refusal would make it contend again.
            Ok(Found::Nobody) if unasked => {
                self.contend_later(&pod);
                "no_victims"
            }
            Ok(Found::Nobody) => {
                self.0.books.write().rest(&pod.uid, now().instant);
                "no_victims"
            }
            Ok(Found::Protected) => {
                self.say_protected(&pod);
                self.contend_later(&pod);
                "protected"
            }
            Ok(Found::Unknown) => {
                self.say_failed(&pod, &undecided(STEPS));
                "failed"
            }
            Err(error) => {
                self.say_failed(&pod, &error);
                "failed"
            }
        };
        self.0.metrics.preempted(outcome);
    }

    fn say_failed(&self, pod: &PodRef, error: &str) {
        tracing::warn!(%pod, error, "it is not known who would have to go; it contends later");
        self.contend_later(pod);
    }

    pub(super) fn contend_later(&self, pod: &PodRef) {
        let now = now().instant;
        self.0.books.write().contend_later(&pod.uid, now);
    }

    /// Reads a pod that the watch has not shown.
    pub(super) async fn make_known(&self, pod: &PodRef) -> Result<(), CallError> {
        let known = self.0.books.read().pods().get(pod.uid.as_str()).is_some();
        if !known {
            self.read(pod).await?;
        }
        Ok(())
    }

    /// The pod as the watch shows it, if other pods may be evicted for it.
    pub(super) fn preemptor(&self, pod: &PodRef) -> Option<Arc<KnownPod>> {
        let books = self.0.books.read();
        let known = books.pods().get(pod.uid.as_str());
        known.filter(|known| known.preemption.preempts).cloned()
    }

    /// Claims the room, and returns the first step to carry out; later steps follow from it. `None` if the pod or the
    /// node has changed meanwhile, or if this replica no longer leads.
    pub(super) fn take_up(
        &self,
        preemptor: &Arc<KnownPod>,
        proposal: &Proposal,
        evictor: Evictor,
        term: u64,
    ) -> Option<Step> {
        let PodRef { uid, .. } = &preemptor.pod;
        let NewPreemption { first, outranked } = {
            let mut books = self.0.books.write();
            self.still_leads(term).ok()?;
            match books.begin_preemption(preemptor, proposal, evictor, now()) {
                Ok(begun) => begun,
                Err(StaleProposal::Pod) => {
                    books.leave_contention(uid);
                    return None;
                }
                Err(StaleProposal::Node) => {
                    books.contend_later(uid, now().instant);
                    return None;
                }
            }
        };
        self.0.metrics.preempted("begun");
        let victims: Vec<&str> = proposal.victims.iter().map(PodUid::as_str).collect();
        tracing::info!(
            pod = %preemptor.pod, %uid, priority = preemptor.rank.priority,
            node = %proposal.node, victims = victims.join(","), outranked = outranked.len(),
            "room is claimed for a pod that no card can take"
        );
        Some(first)
    }

    async fn find(&self, preemptor: &Arc<KnownPod>, nodes: Vec<NodeName>) -> Result<Found, String> {
        let looked = self
            .look(preemptor, nodes.clone(), Terms::default())
            .await?;
        let unguarded = match looked.best {
            Some(unguarded) => unguarded,
            None if looked.cut => return Ok(Found::Unknown),
            None => return Ok(Found::Nobody),
        };
        if unguarded.victims.is_empty() {
            let preemptor = preemptor.clone();
            let fits =
                self.search(move |books| books.situation().fits_somewhere(&preemptor, &nodes));
            return Ok(if fits.await? {
                Found::Room
            } else {
                Found::Proposal(unguarded)
            });
        }
        // Disruption budgets can only rule out victims. So if they allow the best proposal, it is the best one with
        // budgets too.
        let budgets = self.read_budgets().await?;
        if self
            .0
            .books
            .read()
            .situation()
            .may_all_go(&unguarded.victims, &budgets)
        {
            return Ok(Found::Proposal(unguarded));
        }
        let terms = Terms {
            budgets,
            ..Terms::default()
        };
        let guarded = self.look(preemptor, nodes, terms).await?;
        Ok(match guarded.best {
            Some(guarded) => Found::Proposal(guarded),
            None if guarded.cut => Found::Unknown,
            None => Found::Protected,
        })
    }

    /// Looks for victims on nodes that the scheduler did not name because their totals do not suffice. The scheduler
    /// looks for victims by priority, and does not know which pods are over budget. Other rules may keep the pod off
    /// such a node, so pods are evicted only where the pod can certainly go.
    async fn find_to_win_back(&self, preemptor: &Arc<KnownPod>) -> Result<Found, String> {
        let winner = preemptor.pod.uid.clone();
        let mut nodes = self
            .search(move |books| books.nodes_to_win_back(&winner))
            .await?;
        let mut suitor = None;
        for _ in 0..MOST_READ {
            let proposal = match self.find(preemptor, nodes.clone()).await? {
                Found::Proposal(proposal) => proposal,
                found => return Ok(found),
            };
            if suitor.is_none() {
                let read = Suitor::read(&self.0.client, &preemptor.pod, &self.0.dialects);
                suitor = read.await.map_err(|error| error.to_string())?;
            }
            let Some(suitor) = &suitor else {
                return Ok(Found::Nobody);
            };
            let node = &proposal.node;
            let has_room = {
                let (books, leaving) = (self.0.books.read(), proposal.victims.iter());
                let packing = books.packing();
                packing.has_host_room_without(node, leaving, preemptor.host)
            };
            let suits = suitor.suits(&self.0.client, node).await;
            if has_room && suits.map_err(|error| error.to_string())? {
                return Ok(Found::Proposal(proposal));
            }
            nodes.retain(|other| other != node);
        }
        Ok(Found::Nobody)
    }

    pub(super) async fn read_budgets(&self) -> Result<Budgets, String> {
        let read = Budgets::read(&self.0.client);
        match tokio::time::timeout(READ_BUDGETS_WITHIN, read).await {
            Ok(Ok(budgets)) => Ok(budgets),
            Ok(Err(error)) => Err(format!("cannot read disruption budgets: {error}")),
            Err(_elapsed) => Err("disruption budgets did not arrive in time".to_owned()),
        }
    }

    /// The cheapest proposal on these nodes.
    async fn look(
        &self,
        preemptor: &Arc<KnownPod>,
        nodes: Vec<NodeName>,
        terms: Terms,
    ) -> Result<Survey, String> {
        let (extender, preemptor) = (self.clone(), preemptor.clone());
        let work = move || {
            let (mut all, steps) = (Survey::default(), Steps::new(STEPS));
            while let Some(left) = nodes.get(all.nodes..).filter(|left| !left.is_empty()) {
                let portion = left.get(..PORTION).unwrap_or(left);
                let limit = all.best.as_ref().map(|best| &best.cost);
                let books = extender.0.books.read();
                let looked =
                    books
                        .situation()
                        .propose(&preemptor, portion, &terms, limit, &steps, now());
                drop(books);
                all.cut |= looked.cut;
                all.nodes += looked.nodes;
                all.best = looked.best.or(all.best);
            }
            all
        };
        beside(work).await
    }

    /// Runs a search in the books on a blocking thread.
    async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Books) -> T + Send + 'static,
    ) -> Result<T, String> {
        let extender = self.clone();
        beside(move || work(&extender.0.books.read())).await
    }
}
