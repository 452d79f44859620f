//! What the leader knows during a term, beside the view: how far pods are charged, what was issued, and the ledger's
//! balances. All of it can be read from the ledger again, which happens when the ledger disagrees.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpushare_core::{Classes, PodUid};
use gpushare_ledger::Seconds;
use gpushare_ledger::money::Amount;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::{Balance, Ledger, MeteredPod, StoreError};

use super::cards::Memory;
use super::due::{DueCharges, Progress};
use super::payers::Payers;
use super::view::SeenPod;

#[derive(Debug)]
pub(super) struct Books {
    /// `None` for pods that the ledger does not know.
    pods: BTreeMap<PodUid, Option<MeteredPod>>,
    pub(super) cards: Memory,
    pub(super) payers: Arc<Payers>,
    /// The version of the view's terms from which the payers were computed.
    pub(super) terms: Option<u64>,
    /// Pods whose object is gone and whose end is not charged yet, and when that was noticed.
    pub(super) gone: Vec<(Arc<SeenPod>, Seconds)>,
    /// For each budget, the start of the last period for which its amount was issued, and that amount.
    pub(super) issued: BTreeMap<String, (Seconds, Amount)>,
    balances: BTreeMap<String, (Span, Balance)>,
    pub(super) retained: Option<Seconds>,
}

impl Books {
    pub(super) async fn read(ledger: &Ledger, classes: &Classes) -> Result<Self, StoreError> {
        let unsettled = ledger.unsettled().await?;
        let inventories = ledger.inventories().await?;
        Ok(Self {
            pods: unsettled
                .into_iter()
                .map(|pod| (pod.pod.clone(), Some(pod)))
                .collect(),
            cards: Memory::read(classes, &inventories),
            payers: Arc::default(),
            terms: None,
            gone: Vec::new(),
            issued: BTreeMap::new(),
            balances: BTreeMap::new(),
            retained: None,
        })
    }

    pub(super) fn progress(&self, pod: &PodUid) -> Option<Progress> {
        let known = self.pods.get(pod)?.as_ref()?;
        Some(Progress {
            through: known.through,
            settled: known.settled,
        })
    }

    /// Reads pods that are not known here from the ledger.
    pub(super) async fn look_up(
        &mut self,
        ledger: &Ledger,
        pods: Vec<PodUid>,
    ) -> Result<(), StoreError> {
        for pod in pods {
            if let Entry::Vacant(unknown) = self.pods.entry(pod) {
                let known = ledger.pod(unknown.key()).await?;
                unknown.insert(known);
            }
        }
        Ok(())
    }

    /// Records how far a pod is charged after a write.
    pub(super) fn note(&mut self, charged: &DueCharges) {
        let Some(Progress { through, settled }) = charged.progress() else {
            return;
        };
        let booking = &charged.booking;
        let before = self.pods.get(&booking.pod).cloned().flatten();
        let known = MeteredPod {
            pod: booking.pod.clone(),
            namespace: booking.namespace.clone(),
            name: booking.name.clone(),
            begin: before.map_or(booking.begin, |before| before.begin),
            through,
            settled,
        };
        self.pods.insert(booking.pod.clone(), Some(known));
        self.written();
    }

    pub(super) fn settled(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
        self.written();
    }

    /// Forgets a pod, so that it is read from the ledger again.
    pub(super) fn doubt(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
    }

    /// Drops the balances after a write, so that they are read again.
    pub(super) fn written(&mut self) {
        self.balances.clear();
    }

    /// Pods that are not settled in the ledger and are not in `shown`.
    pub(super) fn lost(&self, shown: &BTreeMap<PodUid, Arc<SeenPod>>) -> Vec<MeteredPod> {
        let unsettled = self.pods.values().flatten().filter(|pod| !pod.settled);
        let lost = unsettled.filter(|pod| !shown.contains_key(&pod.pod));
        lost.cloned().collect()
    }

    /// Forgets pods whose object is gone and whose end is charged.
    pub(super) fn forget_all_but(&mut self, shown: &BTreeMap<PodUid, Arc<SeenPod>>) {
        let gone: BTreeSet<&PodUid> = self.gone.iter().map(|(pod, _)| &pod.facts.uid).collect();
        self.pods.retain(|pod, known| {
            let unsettled = known.as_ref().is_some_and(|known| !known.settled);
            unsettled || shown.contains_key(pod) || gone.contains(pod)
        });
    }

    pub(super) async fn balance(
        &mut self,
        ledger: &Ledger,
        budget: &str,
        counted: Span,
    ) -> Result<Balance, StoreError> {
        match self.balances.get(budget) {
            Some((span, balance)) if *span == counted => Ok(*balance),
            _ => {
                let balance = ledger.balance(budget, counted).await?;
                self.balances.insert(budget.to_owned(), (counted, balance));
                Ok(balance)
            }
        }
    }
}
