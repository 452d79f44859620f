//! After the injections: waits until all parts agree, and reports the differences if they do not in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use gpushare_core::{CardId, names};
use gpushare_kube::convert::PodFacts;
use serde_json::{Value, json};

use super::drive::Cluster;
use super::judge::{CalmSnapshot, disagreements, leaks};
use super::plan::TENANTS;
use super::{Shares, ledger, parts};
use crate::interrupt;
use crate::kubectl::Kubectl;
use crate::manifest::IMAGE;
use crate::setup::Setup;
use crate::world::NODE;

/// Long enough for a loaded machine and for every delayed request. Reaching it is a violation.
const PATIENCE: Duration = Duration::from_mins(5);
/// How many looks in a row must find no violation before the cluster counts as settled.
const STEADY: usize = 3;

impl Cluster {
    /// Waits until books, records, files and containers agree. Returns the differences that are left at the deadline.
    pub fn calm(&mut self) -> Vec<String> {
        self.stop_injecting();
        let wrong = self.converge(disagreements);
        self.tally
            .checked("calms: books = records = CDI files = containers", 1);
        wrong
    }

    /// Deletes every pod and waits until nothing is left of them.
    pub fn clean(&mut self) -> Vec<String> {
        let release = self.release_tenants_finalizers();
        let wrong = self.converge(leaks);
        self.tally.checked("ends: nothing leaked", 1);
        release
            .err()
            .map(|error| format!("{error:#}"))
            .into_iter()
            .chain(wrong)
            .collect()
    }

    fn converge(&self, judge: impl Fn(&CalmSnapshot) -> Vec<String>) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut agreed = 0;
        loop {
            interrupt::check();
            assert_eq!(self.rig().ended(), None, "the cluster has ended");
            let wrong = match self.restored().and_then(|()| self.look()) {
                Ok(calm) => judge(&calm),
                Err(error) => vec![format!("the cluster does not come back: {error:#}")],
            };
            agreed = if wrong.is_empty() { agreed + 1 } else { 0 };
            if agreed == STEADY || (Instant::now() > deadline && !wrong.is_empty()) {
                return wrong;
            }
            thread::sleep(Duration::from_millis(300));
        }
    }

    /// Checks that every part is ready and no request is under way any more.
    fn restored(&self) -> Result<()> {
        let rig = self.rig();
        let kept = self.proxy.under_way();
        parts::keep_agents_pod(&self.world, &self.proxy)?;
        parts::ready(&rig)?;
        ensure!(kept == 0, "{kept} requests are still under way");
        Ok(())
    }

    /// What every part says now.
    fn look(&self) -> Result<CalmSnapshot> {
        let list = self.world.get("pods --all-namespaces")?;
        let pods = list["items"].as_array().context("a list of pods")?;
        let sizes = self.world.card_sizes();
        let dialects = Setup::cards(&[]).dialects();
        let mut calm = CalmSnapshot {
            books: self.books()?,
            ..CalmSnapshot::default()
        };
        let mut names_by_uid = BTreeMap::new();
        let mut waiting = Vec::new();
        let tenants = |pod: &&Value| {
            TENANTS
                .map(Value::from)
                .contains(&pod["metadata"]["namespace"])
        };
        for pod in pods.iter().filter(tenants) {
            let facts = PodFacts::new(&serde_json::from_value(pod.clone())?, &dialects);
            let name = format!("{}/{}", facts.namespace, facts.name);
            names_by_uid.insert(facts.uid.clone(), name.clone());
            calm.objects.insert(name.clone());
            if !startable(pod) {
                calm.unstartable.insert(name.clone());
            }
            if facts.node.is_none() && !facts.deleting && plain(pod) {
                waiting.push((name, pod));
            }
        }
        let named = |uid: &gpushare_core::PodUid| {
            let known = names_by_uid.get(uid).cloned();
            known.unwrap_or_else(|| format!("the pod {uid}, which is gone"))
        };
        for (uid, shares) in self.recorder.notes().holding {
            calm.records.insert(named(&uid), shares);
        }
        for one in self.glimpses.last() {
            let sum = calm.running.entry(named(&one.pod)).or_default();
            for (card, mib) in one.shares {
                *sum.entry(card).or_default() += mib;
            }
        }
        calm.files = self
            .files()?
            .iter()
            .map(|uid| named(&uid.as_str().into()))
            .collect();
        let free = free(&sizes, &calm.books);
        let starved = waiting.into_iter().filter(|(_, pod)| fits(pod, &free));
        calm.starved = starved.map(|(name, _)| name).collect();
        calm.remains = self.remains(&calm)?;
        Ok(calm)
    }

    /// The leading extender's books.
    fn books(&self) -> Result<BTreeMap<String, Shares>> {
        booked(&self.world.inspect_node()?, &self.world.cards())
    }

    /// The uids of the pods that have CDI files.
    fn files(&self) -> Result<BTreeSet<String>> {
        let mut pods = BTreeSet::new();
        for entry in fs::read_dir(self.rig().path("/var/run/cdi"))? {
            let entry = entry?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with("gpushare.io-slot-")
            {
                let spec: Value = serde_json::from_slice(&fs::read(entry.path())?)?;
                let pod = spec["annotations"]["gpushare.io/pod-uid"].as_str();
                pods.insert(pod.unwrap_or("nobody").to_owned());
            }
        }
        Ok(pods)
    }

    /// What must be gone once no container outlives its pod, and once no pod is left.
    fn remains(&self, calm: &CalmSnapshot) -> Result<BTreeSet<String>> {
        let mut remains = BTreeSet::new();
        let node = self.world.get(&format!("node {NODE}"))?;
        let annotations = node["metadata"]["annotations"].as_object();
        for (name, value) in annotations.into_iter().flatten() {
            if name == "gpushare.io/held" && !["", "[]", "{}"].map(Value::from).contains(value) {
                remains.insert(format!("the Node still has {name}: {value}"));
            }
        }
        if calm.objects.is_empty() {
            for pod in ledger::unsettled(&parts::database(&self.world))? {
                remains.insert(format!("the ledger does not know the end of {pod}"));
            }
        }
        Ok(remains)
    }

    /// Deletes all pods, and removes the finalizers that tenants put on them.
    fn release_tenants_finalizers(&self) -> Result<()> {
        let rig = self.rig();
        for namespace in TENANTS {
            let within = format!("--namespace={namespace}");
            rig.ctl(&format!("delete pods --all --wait=false {within}"))?;
            let pods = rig.get(&format!("pods {within}"))?;
            for pod in pods["items"].as_array().into_iter().flatten() {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let finalizers = pod["metadata"]["finalizers"].as_array();
                let ours = finalizers
                    .into_iter()
                    .flatten()
                    .filter(|one| *one == names::METERING);
                let kept = Value::from(ours.cloned().collect::<Vec<_>>());
                let patch = json!({"metadata": {"finalizers": kept}});
                // The pod may be gone by now.
                let _ = rig.patch(&format!("pod {name} --type=merge {within}"), &patch);
            }
        }
        Ok(())
    }
}

/// What the extender's answer about a node books for each pod name. Bookings of several pods with one name add up, so
/// that a leftover of an earlier pod does not hide behind the next one.
fn booked(node: &Value, cards: &[CardId]) -> Result<BTreeMap<String, Shares>> {
    let mut books: BTreeMap<String, Shares> = BTreeMap::new();
    for device in node["devs"].as_array().into_iter().flatten() {
        let index = device["id"]
            .as_u64()
            .and_then(|id| usize::try_from(id).ok());
        let card = index.and_then(|index| cards.get(index)).context("a card")?;
        for pod in device["pods"].as_array().into_iter().flatten() {
            let text = |field: &str| pod[field].as_str().unwrap_or_default().to_owned();
            let gib = pod["usedGPU"].as_u64().context("an amount")?;
            let name = format!("{}/{}", text("namespace"), text("name"));
            let shares = books.entry(name).or_default();
            *shares.entry(card.clone()).or_default() += gib * 1024;
        }
    }
    Ok(books)
}

/// Whether the pod's containers can run: a tenant may have named an image that does not exist.
fn startable(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    containers.all(|container| container["image"] == IMAGE)
}

/// Whether the pod's request is unchanged: a tenant may have made it impossible to place.
fn plain(pod: &Value) -> bool {
    let choosing = [
        names::POLICY,
        names::CARD_MODELS,
        names::EXCLUDE_CARD_MODELS,
        names::CARD_IDS,
        names::EXCLUDE_CARD_IDS,
    ];
    let annotations = &pod["metadata"]["annotations"];
    choosing.iter().all(|name| annotations[*name].is_null())
}

fn free(sizes: &BTreeMap<CardId, u64>, books: &BTreeMap<String, Shares>) -> Vec<u64> {
    let booked = |card: &CardId| books.values().filter_map(|shares| shares.get(card)).sum();
    let cards = sizes.iter();
    cards
        .map(|(card, size)| size.saturating_sub(booked(card)))
        .collect()
}

fn fits(pod: &Value, free: &[u64]) -> bool {
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    let amount = |name: &str| {
        limits[name]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let (Some(cards), Some(mib)) = (amount(names::GPU), amount(names::GPU_MEM)) else {
        return false;
    };
    free.iter().filter(|free| **free >= mib).count() as u64 >= cards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booking_of_an_earlier_pod_does_not_hide_behind_the_next_one_of_its_name() {
        let pod = json!({"namespace": "team", "name": "a", "usedGPU": 2});
        let node = json!({"devs": [{"id": 0, "pods": [pod, pod]}]});
        let books = booked(&node, &[CardId::new("GPU-1")]).unwrap();
        let both = Shares::from([(CardId::new("GPU-1"), 4096)]);
        assert_eq!(books, BTreeMap::from([("team/a".to_owned(), both)]));
    }
}
