//! Containers that outlive their pods, and what their nodes' agents have reported of them.

use gpushare_core::held::HeldPod;
use gpushare_core::placement::Hold;
use gpushare_core::{Amounts, CardId, PodUid, gpu};

use super::{Api, CARD_GIB, Truth};

impl Api {
    /// Deletes the pod by force. If it was bound and had not ended, its containers run on, and its uid and node are
    /// returned.
    pub(in super::super) fn delete_by_force(&self, name: &str) -> Option<(PodUid, String)> {
        let left = self.change(|truth| {
            let pod = truth.pods.get(name)?;
            let (uid, node) = (PodUid::new(&pod.uid), pod.node.clone()?);
            let held = (node.clone(), pod.gib);
            (pod.phase != "Succeeded").then(|| {
                truth.outlived.insert(uid.clone(), held);
                truth.story.tell(format!("the containers of {uid} run on"));
                (uid, node)
            })
        });
        self.delete(name);
        left
    }

    /// The last containers of a pod that is gone have ended.
    pub(in super::super) fn end_outlived(&self, pod: &PodUid) {
        self.change(|truth| truth.outlived.remove(pod));
        self.story
            .tell(format!("the containers of {pod} have ended"));
    }
}

impl Truth {
    /// What the node's agent reports of containers without pods.
    pub(in super::super) fn held_on(&self, node: &str) -> Vec<HeldPod> {
        let here = self.outlived.iter().filter(|(_, (at, _))| at == node);
        here.map(|(pod, (_, gib))| HeldPod {
            pod: pod.clone(),
            name: "team/gone".into(),
            charges: [(
                CardId::new(format!("GPU-{node}")),
                Hold::Part(Amounts::of(gpu::MEMORY, gib * 1024)),
            )]
            .into_iter()
            .collect(),
        })
        .collect()
    }

    /// The extender has taken in the report of the node's agent.
    pub(in super::super) fn note_told(&mut self, extender: usize, node: &str, held: &[HeldPod]) {
        let outlived = &self.outlived;
        self.told.retain(|(other, pod)| {
            let elsewhere = outlived.get(pod).is_some_and(|(at, _)| at != node);
            *other != extender || elsewhere
        });
        let told = held.iter().map(|held| (extender, held.pod.clone()));
        self.told.extend(told);
    }

    /// The containers without pods that were reported to an extender, their nodes and what they hold.
    pub(in super::super) fn told(
        &self,
        extender: usize,
    ) -> impl Iterator<Item = (&PodUid, &str, u64)> {
        let told = self.told.iter().filter(move |(to, _)| *to == extender);
        told.filter_map(|(_, pod)| {
            let (node, gib) = self.outlived.get(pod)?;
            Some((pod, node.as_str(), *gib))
        })
    }

    /// An extender has just booked the pod on the node: there must be room beside the pods there and the containers
    /// reported to it. Containers reported later may exceed the card, which is no mistake: the agent delays the pod's
    /// start.
    pub(in super::super) fn check_room(&self, extender: usize, pod: &PodUid, node: &str) {
        let Some(booked) = self.pods.values().find(|own| own.uid == pod.as_str()) else {
            return;
        };
        let others = self
            .holders()
            .filter(|(other, at, _)| other != pod && *at == node);
        let others: u64 = others.map(|(_, _, gib)| gib).sum();
        let told = self.told(extender).filter(|(_, at, _)| *at == node);
        let told: u64 = told.map(|(_, _, gib)| gib).sum();
        let gib = booked.gib;
        if gib + others + told > CARD_GIB {
            let what = format!(
                "{gib} GiB are booked for {pod} on {node}, where pods hold {others} of {CARD_GIB} GiB and containers \
                 without pods {told}"
            );
            self.story.broken(&what);
        }
    }
}
