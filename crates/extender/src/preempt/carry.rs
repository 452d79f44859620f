//! Carrying out preemptions: each step is one exchange with the API server.

use std::time::Instant;

use gpushare_books::Followup;
use gpushare_books::preemptions::{Outcome, Reason, Step};
use gpushare_core::names::event;
use gpushare_core::{NodeName, PodUid};
use gpushare_kube::claim::{Mark, MarkOutcome, mark};
use gpushare_kube::evict::{EvictionOutcome, evict, may_take_effect};
use gpushare_kube::notice::{self, Notice, Severity};
use tokio::task::JoinHandle;

use crate::Extender;
use crate::bind::MOST_SENDS;
use gpushare_kube::PodRef;

impl Extender {
    /// Carries out a step in the background, and notes its outcome; `None` if shutdown interrupts it.
    pub(super) fn carry_out(
        &self,
        pod: PodRef,
        step: Step,
        term: u64,
    ) -> JoinHandle<Option<Outcome>> {
        let extender = self.clone();
        let work = async move {
            let outcome = extender.attempt(&pod, &step, term).await;
            let mut books = extender.0.books.write();
            books.finish_step(&pod.uid, &step, outcome, Instant::now());
            outcome
        };
        // Whichever replica leads next continues an unfinished preemption from the claim on the pod.
        let shutdown = self.0.tasks.shutdown().clone();
        self.0
            .tasks
            .job(async move { shutdown.run_until_cancelled(work).await })
    }

    async fn attempt(&self, pod: &PodRef, step: &Step, term: u64) -> Outcome {
        let now = jiff::Timestamp::now();
        match step {
            Step::Write { record, node } => {
                let written = self.mark(pod, Mark::Claim { record, node }, term).await;
                if written == Outcome::Done {
                    self.say_preempting(pod, node);
                }
                written
            }
            Step::Nominate { node } => self.mark(pod, Mark::Nominate(node), term).await,
            Step::Wake { node } => {
                tracing::info!(%pod, uid = %pod.uid, %node, "the claimed room is free");
                self.mark(pod, Mark::Wake { node, now }, term).await
            }
            Step::Clear => self.mark(pod, Mark::Nothing, term).await,
            Step::Evict { victims, node } => self.evict_all(pod, victims, node, term).await,
            Step::GiveUp(_) if self.still_leads(term).is_err() => Outcome::Failed,
            Step::GiveUp(reason) => {
                self.give_up(pod, *reason);
                Outcome::Done
            }
        }
    }

    /// Other clients, above all the scheduler, change the pod at the same time. So after a conflict it is read and
    /// marked again.
    async fn mark(&self, pod: &PodRef, what: Mark<'_>, term: u64) -> Outcome {
        for sent in 1..=MOST_SENDS {
            match self.mark_once(pod, what, term, sent).await {
                Ok(MarkOutcome::Done) => return Outcome::Done,
                Ok(MarkOutcome::Gone) => return Outcome::Gone,
                Ok(MarkOutcome::Changed) => {
                    if let Err(error) = self.read(pod).await {
                        tracing::warn!(%error, "a preemption is held up");
                        return Outcome::Failed;
                    }
                }
                Err(reason) => {
                    tracing::warn!(reason, "a preemption is held up");
                    return Outcome::Failed;
                }
            }
        }
        Outcome::Failed
    }

    async fn mark_once(
        &self,
        pod: &PodRef,
        what: Mark<'_>,
        term: u64,
        sent: usize,
    ) -> Result<MarkOutcome, String> {
        let version = self.version_of(pod, sent);
        let version = version.filter(|_| what.names_version());
        self.still_leads(term)?;
        if let Mark::Claim { record, .. } = what
            && !self
                .0
                .books
                .read()
                .preemptions()
                .is_claim_of(&pod.uid, record)
        {
            return Err("the claim is over".to_owned());
        }
        let marked = mark(&self.0.client, pod, version.as_deref(), what);
        marked.await.map_err(|error| error.to_string())
    }

    /// The version of the pod that a request names, so that the request is void once the pod has changed. The last of
    /// several attempts names none, so that no pod escapes by changing all the time.
    fn version_of(&self, pod: &PodRef, sent: usize) -> Option<String> {
        let books = self.0.books.read();
        let known = books.pods().get(pod.uid.as_str());
        let version = known.map(|known| known.version.clone());
        version.filter(|version| sent < MOST_SENDS && !version.is_empty())
    }

    /// Evicts the victims one after the other: if a disruption budget refuses one, the remaining ones are spared.
    async fn evict_all(
        &self,
        pod: &PodRef,
        victims: &[PodRef],
        node: &NodeName,
        term: u64,
    ) -> Outcome {
        for victim in victims {
            let uid = &victim.uid;
            let label = match self.evict_victim(victim, &pod.uid, term).await {
                Ok(None) => continue,
                Ok(Some(EvictionOutcome::Ending)) => {
                    tracing::info!(
                        pod = %victim, %uid, %node, preemptor = %pod, "evicted"
                    );
                    self.say_preempted(victim, &pod.uid, node);
                    "evicted"
                }
                Ok(Some(EvictionOutcome::Gone)) => "gone",
                Ok(Some(EvictionOutcome::Protected(message))) => {
                    tracing::info!(
                        pod = %victim, %uid, message, preemptor = %pod,
                        "a disruption budget keeps a victim; looking for others"
                    );
                    self.0.metrics.evicted("protected");
                    self.0.metrics.preempted("protected");
                    let mut books = self.0.books.write();
                    books.end_preemption(&pod.uid);
                    books.contend_later(&pod.uid, Instant::now());
                    return Outcome::Done;
                }
                Ok(Some(EvictionOutcome::Changed)) => {
                    self.0.metrics.evicted("failed");
                    return Outcome::Failed;
                }
                Err(reason) => {
                    tracing::warn!(reason, "a preemption is held up");
                    self.0.metrics.evicted("failed");
                    return Outcome::Failed;
                }
            };
            self.0.metrics.evicted(label);
        }
        Outcome::Done
    }

    /// Evicts the victim if that is still needed for the pod; `None` if it is not.
    async fn evict_victim(
        &self,
        victim: &PodRef,
        pod: &PodUid,
        term: u64,
    ) -> Result<Option<EvictionOutcome>, String> {
        for sent in 1..=MOST_SENDS {
            let version = self.version_of(victim, sent);
            self.still_leads(term)?;
            if !self.0.books.read().situation().must_go(&victim.uid, pod) {
                return Ok(None);
            }
            let evicted = evict(&self.0.client, victim, version.as_deref()).await;
            match evicted {
                Ok(EvictionOutcome::Changed) => {
                    self.read(victim).await.map_err(|error| error.to_string())?;
                }
                Ok(evicted) => return Ok(Some(evicted)),
                Err(error) => {
                    // The eviction may arrive when it is no longer wanted, so a fence makes it void.
                    if may_take_effect(&error) && self.fence(victim).await.is_err() {
                        self.follow_up(victim.clone(), Followup::Fence);
                    }
                    return Err(error.to_string());
                }
            }
        }
        Ok(Some(EvictionOutcome::Changed))
    }

    fn give_up(&self, pod: &PodRef, reason: Reason) {
        let message = match reason {
            Reason::Late => "the room that was claimed for this pod was not used in time",
            Reason::Stuck => "a pod that had to go does not end; others are looked for",
            Reason::NoRoom => "the pods that had to go have gone, and there is no room yet",
        };
        {
            let mut books = self.0.books.write();
            books.end_preemption(&pod.uid);
            books.contend_later(&pod.uid, Instant::now());
        }
        tracing::warn!(%pod, uid = %pod.uid, message, "a preemption is given up");
        self.0.metrics.preempted("given_up");
        self.say(
            pod,
            event::PREEMPTION_GIVEN_UP,
            Severity::Warning,
            message.to_owned(),
        );
    }

    fn say_preempting(&self, pod: &PodRef, node: &NodeName) {
        let (cards, victims) = {
            let books = self.0.books.read();
            let claim = books.ledger().claimed(pod.uid.as_str());
            let cards = claim.map(|claim| claim.placement.cards());
            let cards: Vec<String> = cards
                .into_iter()
                .flatten()
                .map(ToString::to_string)
                .collect();
            let record = books.preemptions().claim(&pod.uid);
            (
                cards.join(", "),
                record.map_or(0, |record| record.victims.len()),
            )
        };
        let message = match victims {
            0 => format!("room on {cards} of node {node} is kept until the pods there have ended"),
            1 => format!("1 pod of lower priority is evicted from {cards} of node {node}"),
            _ => {
                format!("{victims} pods of lower priority are evicted from {cards} of node {node}")
            }
        };
        self.say(pod, event::PREEMPTING, Severity::Normal, message);
    }

    fn say_preempted(&self, victim: &PodRef, preemptor: &PodUid, node: &NodeName) {
        // The message contains the preemptor's uid, not its name: the victim's owner may not be allowed to see that
        // pod.
        let message = format!("preempted by pod {preemptor} on node {node}");
        self.say(victim, event::PREEMPTED, Severity::Normal, message);
    }

    pub(super) fn say_protected(&self, pod: &PodRef) {
        let message = "pods of lower priority hold the room that this pod needs, but their disruption \
                       budgets do not let them go";
        self.say(
            pod,
            event::PREEMPTION_BLOCKED,
            Severity::Warning,
            message.to_owned(),
        );
    }

    fn say(&self, pod: &PodRef, reason: &'static str, severity: Severity, message: String) {
        let now = jiff::Timestamp::now();
        let notice = Notice {
            pod: pod.clone(),
            reason,
            severity,
            message,
        };
        let (client, shutdown) = (self.0.client.clone(), self.0.tasks.shutdown().clone());
        let work = async move {
            if let Err(error) = notice::post(&client, &notice, 1, now).await {
                tracing::warn!(%error, "cannot write the event about a preemption, which continues");
            }
        };
        self.0
            .tasks
            .job(async move { shutdown.run_until_cancelled(work).await });
    }
}
