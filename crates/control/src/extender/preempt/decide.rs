//! Deciding: for one refused pod, who has to go from where, if anybody may.

use std::time::Duration;

use gpushare_core::preempt::Evictor;
use gpushare_core::{NodeName, PodUid, Steps};
use gpushare_kube::budgets::Budgets;
use gpushare_kube::suits::Suitor;

use super::now;
use crate::extender::Extender;
use crate::extender::state::{
    Begun, Contention, Outdated, PodRef, Preemptor, Proposal, Step, Terms,
};
use crate::extender::watch::LookError;

/// Nodes looked at under one lock, and what may be tried on them.
const PORTION: usize = 64;
const STEPS: u32 = 20_000;
/// What may be tried on all nodes together.
const ALL_STEPS: u32 = 1_000_000;
const READ_BUDGETS_WITHIN: Duration = Duration::from_secs(5);
/// Of nodes that the scheduler did not name, so many are read to see whether the pod could go there.
const MOST_READ: usize = 8;

/// What was found for a pod.
#[derive(Debug)]
enum Found {
    /// It fits without anybody going.
    Room,
    /// Nobody of lower rank could make room.
    Nobody,
    /// Those who could are protected.
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
            self.0.state.write().leave_contention(&pod.uid);
            return;
        };
        let unasked = contention.nodes.is_empty();
        let found = match self.find(&preemptor, contention.nodes).await {
            Ok(Found::Nobody) => self.find_to_win_back(&preemptor).await,
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
                self.0.state.write().leave_contention(&pod.uid);
                "no_need"
            }
            // Nobody will ask about it, so nobody would make it contend again.
            Ok(Found::Nobody) if unasked => {
                self.contend_later(&pod);
                "no_victims"
            }
            Ok(Found::Nobody) => {
                self.0.state.write().rest(&pod.uid, now().instant);
                "no_victims"
            }
            Ok(Found::Protected) => {
                self.say_protected(&pod);
                self.contend_later(&pod);
                "protected"
            }
            Err(error) => {
                let pod_name = format_args!("{}/{}", pod.namespace, pod.name);
                tracing::warn!(pod = %pod_name, error, "no victims were looked for");
                self.contend_later(&pod);
                "failed"
            }
        };
        self.0.metrics.preempted(outcome);
    }

    pub(super) fn contend_later(&self, pod: &PodRef) {
        let now = now().instant;
        self.0.state.write().contend_later(&pod.uid, now);
    }

    /// Reads a pod that the watch has not shown.
    pub(super) async fn make_known(&self, pod: &PodRef) -> Result<(), LookError> {
        let known = self.0.state.read().pod(pod.uid.as_str()).is_some();
        if !known {
            self.read(pod).await?;
        }
        Ok(())
    }

    /// The pod as the watch shows it, if others may have to go for it.
    pub(super) fn preemptor(&self, pod: &PodRef) -> Option<Preemptor> {
        let state = self.0.state.read();
        let known = state.pod(pod.uid.as_str())?;
        if !known.standing.preempts {
            return None;
        }
        Some(Preemptor {
            pod: state.reference(&pod.uid)?,
            ask: known.ask.clone(),
            host: known.host,
            rank: known.rank,
        })
    }

    /// Claims the room; the rest follows from the step that is returned, which is to be carried out.
    /// Nothing when things have changed meanwhile.
    pub(super) fn take_up(
        &self,
        preemptor: &Preemptor,
        proposal: &Proposal,
        evictor: Evictor,
        term: u64,
    ) -> Option<Step> {
        let PodRef {
            uid,
            namespace,
            name,
        } = &preemptor.pod;
        let Begun { first, outranked } = {
            let mut state = self.0.state.write();
            self.still_leads(term).ok()?;
            match state.begin_preemption(preemptor, proposal, evictor, now()) {
                Ok(begun) => begun,
                Err(Outdated::Pod) => {
                    state.leave_contention(uid);
                    return None;
                }
                Err(Outdated::Node) => {
                    state.contend_later(uid, now().instant);
                    return None;
                }
            }
        };
        self.0.metrics.preempted("begun");
        let victims: Vec<&str> = proposal.victims.iter().map(PodUid::as_str).collect();
        tracing::info!(
            pod = %format_args!("{namespace}/{name}"), %uid, priority = preemptor.rank.priority,
            node = %proposal.node, victims = victims.join(","), outranked = outranked.len(),
            "room is claimed for a pod that no card can take"
        );
        Some(first)
    }

    async fn find(&self, preemptor: &Preemptor, nodes: Vec<NodeName>) -> Result<Found, String> {
        let unguarded = self
            .look(preemptor, nodes.clone(), Terms::default())
            .await?;
        let Some(unguarded) = unguarded else {
            return Ok(Found::Nobody);
        };
        if unguarded.victims.is_empty() && self.0.state.read().fits_somewhere(preemptor, &nodes) {
            return Ok(Found::Room);
        }
        if unguarded.victims.is_empty() {
            return Ok(Found::Proposal(unguarded));
        }
        // Budgets only forbid: what is best without them is best with them if they allow it.
        let budgets = self.read_budgets().await?;
        if self.0.state.read().may_all_go(&unguarded.victims, &budgets) {
            return Ok(Found::Proposal(unguarded));
        }
        let terms = Terms {
            budgets,
            ..Terms::default()
        };
        let guarded = self.look(preemptor, nodes, terms).await?;
        Ok(guarded.map_or(Found::Protected, Found::Proposal))
    }

    /// On nodes that the scheduler did not name, because their totals do not suffice: it looks for victims by
    /// priority, and does not know who is over budget. What else may keep the pod from a node is not ours to judge,
    /// so nobody goes where we cannot be sure.
    async fn find_to_win_back(&self, preemptor: &Preemptor) -> Result<Found, String> {
        let PodRef {
            uid,
            namespace,
            name,
        } = &preemptor.pod;
        let mut nodes = self.0.state.read().nodes_to_win_back(uid);
        let mut suitor = None;
        for _ in 0..MOST_READ {
            let proposal = match self.find(preemptor, nodes.clone()).await? {
                Found::Proposal(proposal) => proposal,
                found => return Ok(found),
            };
            if suitor.is_none() {
                let read = Suitor::read(&self.0.client, namespace, name, uid, &self.0.dialects);
                suitor = read.await.map_err(|error| error.to_string())?;
            }
            let Some(suitor) = &suitor else {
                return Ok(Found::Nobody);
            };
            let node = &proposal.node;
            let has_room = {
                let (state, leaving) = (self.0.state.read(), proposal.victims.iter());
                let packing = state.packing();
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

    /// The cheapest proposal on these nodes, looked for beside the async threads.
    async fn look(
        &self,
        preemptor: &Preemptor,
        nodes: Vec<NodeName>,
        terms: Terms,
    ) -> Result<Option<Proposal>, String> {
        let (extender, preemptor) = (self.clone(), preemptor.clone());
        let work = move || {
            let (mut best, all_steps) = (None::<Proposal>, Steps::new(ALL_STEPS));
            for portion in nodes.chunks(PORTION) {
                let limit = best.as_ref().map(|best| best.cost);
                let steps = all_steps.portion(STEPS);
                let state = extender.0.state.read();
                let found =
                    state.propose(&preemptor, portion, &terms, limit.as_ref(), &steps, now());
                drop(state);
                all_steps.settle(&steps);
                best = found.or(best);
            }
            if best.is_none() && all_steps.are_used_up() {
                let steps = all_steps.given();
                return Err(format!(
                    "in {steps} steps it was not found out who would have to go: \
                     the pod asks in too many containers"
                ));
            }
            Ok(best)
        };
        let worked = tokio::task::spawn_blocking(work).await;
        worked.map_err(|error| error.to_string())?
    }
}
