//! One attempt to place one pod: filter, prioritize, assume, bind; or, if it fits nowhere, preempt and report why.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gpushare_kube::placing;
use gpushare_kube::totals::{CPU, Totals};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::fit::{self, Host};
use super::queue::Cause;
use super::{Failure, Scheduler, preempt};

/// The result of looking for a node.
struct Search {
    fitting: Vec<String>,
    /// Why the pod does not fit on the other nodes.
    reasons: BTreeMap<String, Vec<String>>,
    /// The nodes among them on which evictions could help.
    evictable: Vec<String>,
    /// Whether it was the extender that refused the last fitting nodes.
    refused_by_extender: bool,
}

impl Scheduler {
    pub(super) async fn schedule(&mut self, pod: Arc<Pod>) {
        let asked = fit::requests(&pod);
        let managed = self.is_managed(&asked);
        let search = match self.search(&pod, &asked, managed).await {
            Ok(search) => search,
            Err(reason) => return self.retry(&pod, &reason).await,
        };
        let chosen = match self.choose(&pod, &search.fitting, managed).await {
            Ok(chosen) => chosen,
            Err(reason) => return self.retry(&pod, &reason).await,
        };
        let Some(node) = chosen else {
            return self.refuse(&pod, &search, managed).await;
        };
        // Counted before it is bound, so that the next pod does not get the same room.
        self.cluster.place(&pod, &node);
        self.bind(pod, node, managed);
    }

    async fn search(&self, pod: &Pod, asked: &Totals, managed: bool) -> Result<Search, String> {
        let mut search = Search {
            fitting: Vec::new(),
            reasons: BTreeMap::new(),
            evictable: Vec::new(),
            refused_by_extender: false,
        };
        for (name, host) in self.cluster.hosts() {
            match fit::obstacle(pod, asked, host) {
                None => search.fitting.push(name.clone()),
                Some(obstacle) => {
                    if obstacle.evictable {
                        search.evictable.push(name.clone());
                    }
                    search.reasons.insert(name.clone(), obstacle.reasons);
                }
            }
        }
        if !managed || search.fitting.is_empty() {
            return Ok(search);
        }
        let names: Vec<&str> = search.fitting.iter().map(String::as_str).collect();
        let filtered = self.extender.filter(pod, &names).await?;
        if !filtered.error.is_empty() {
            return Err(filtered.error);
        }
        let left = filtered.node_names.unwrap_or_default();
        search.refused_by_extender = left.is_empty();
        search.fitting = left;
        // On these nodes kube-scheduler would look for victims.
        search
            .evictable
            .extend(filtered.failed_nodes.keys().cloned());
        let refused = filtered.failed_nodes.into_iter();
        let refused = refused.chain(filtered.failed_and_unresolvable_nodes);
        search
            .reasons
            .extend(refused.map(|(node, reason)| (node, vec![reason])));
        Ok(search)
    }

    async fn choose(
        &self,
        pod: &Pod,
        fitting: &[String],
        managed: bool,
    ) -> Result<Option<String>, String> {
        let [_, _, ..] = fitting else {
            return Ok(fitting.first().cloned());
        };
        if managed {
            let names: Vec<&str> = fitting.iter().map(String::as_str).collect();
            let scores = self.extender.prioritize(pod, &names).await?;
            let best = scores.into_iter().max_by_key(|scored| scored.score);
            return Ok(best.map(|scored| scored.host));
        }
        // One score replaces kube-scheduler's many: the least busy node wins.
        let busy = |name: &&String| self.cluster.host(name).map_or(i64::MAX, busyness);
        Ok(fitting.iter().min_by_key(busy).cloned())
    }

    /// Binds in the background while the next pod is tried.
    fn bind(&self, pod: Arc<Pod>, node: String, managed: bool) {
        let (extender, client) = (self.extender.clone(), self.client.clone());
        let (failures, recorder) = (self.failures.clone(), Arc::clone(&self.recorder));
        self.tasks.job(async move {
            let bound = if managed {
                extender.bind(&pod, &node).await
            } else {
                bind_directly(&client, &pod, &node).await
            };
            match bound {
                Ok(()) => {
                    let name =
                        format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                    let message = format!("Successfully assigned {name} to {node}");
                    recorder.tell(&pod, "Scheduled", &message).await;
                }
                // The receiver is gone only at shutdown.
                Err(reason) => drop(failures.send(Failure { pod, reason })),
            }
        });
    }

    async fn retry(&mut self, pod: &Pod, reason: &str) {
        let uid = pod.uid().unwrap_or_default();
        self.queue.refuse(&uid, Cause::Error, Instant::now());
        self.tell_refused(pod, "SchedulerError", reason).await;
    }

    async fn refuse(&mut self, pod: &Pod, search: &Search, managed: bool) {
        let uid = pod.uid().unwrap_or_default();
        let preempted = self.preempt(pod, &search.evictable, managed).await;
        let cause = match &preempted {
            Err(_) => Cause::Error,
            Ok(_) if search.refused_by_extender => Cause::Extender,
            Ok(_) => Cause::Totals,
        };
        self.queue.refuse(&uid, cause, Instant::now());
        let reasons = search.reasons.values().flatten().map(String::as_str);
        let mut message = placing::refusal(self.cluster.len(), reasons);
        if let Err(reason) = preempted {
            message = format!("{message} preemption: {reason}");
        }
        self.tell_refused(pod, "Unschedulable", &message).await;
    }

    pub(super) async fn tell_refused(&self, pod: &Pod, reason: &str, message: &str) {
        self.recorder.warn(pod, "FailedScheduling", message).await;
        let now = jiff::Timestamp::now();
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]}});
        let params = PatchParams::default();
        let patched = self
            .pods(pod)
            .patch_status(&pod.name_any(), &params, &Patch::Strategic(patch))
            .await;
        if let Err(error) = patched {
            tracing::debug!(%error, pod = pod.name_any(), "cannot write why a pod waits");
        }
    }

    fn pods(&self, pod: &Pod) -> Api<Pod> {
        let namespace = pod.namespace().unwrap_or_default();
        Api::namespaced(self.client.clone(), &namespace)
    }

    /// Evicts pods of lower priority where that makes room and the extender agrees. Returns whether it evicted any.
    async fn preempt(&self, pod: &Pod, nodes: &[String], managed: bool) -> Result<bool, String> {
        if nodes.is_empty() || !preempt::may_preempt(pod, &self.cluster) {
            return Ok(false);
        }
        let budgets = self.budgets.all();
        let mut offers = preempt::candidates(pod, &self.cluster, nodes, &budgets);
        if offers.is_empty() {
            return Ok(false);
        }
        if managed {
            offers = self.extender.preempt(pod, &offers).await?;
        }
        let Some((node, victims)) = preempt::best(offers, &self.cluster) else {
            return Ok(false);
        };
        for uid in &victims.uids {
            if let Some(victim) = self.cluster.pod(uid) {
                self.evict(victim, pod, &node).await;
            }
        }
        let nominated = Patch::Merge(json!({"status": {"nominatedNodeName": node}}));
        let params = PatchParams::default();
        self.pods(pod)
            .patch_status(&pod.name_any(), &params, &nominated)
            .await
            .map_err(|error| error.to_string())?;
        Ok(true)
    }

    async fn evict(&self, victim: &Pod, preemptor: &Pod, node: &str) {
        let message = format!(
            "Preempted by pod {} on node {node}",
            preemptor.uid().unwrap_or_default()
        );
        self.recorder.tell(victim, "Preempted", &message).await;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: victim.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let pods = self.pods(victim);
        if let Err(error) = pods.delete(&victim.name_any(), &params).await {
            tracing::debug!(%error, pod = victim.name_any(), "a victim was gone already");
        }
    }
}

/// How much of a node's CPU is taken, in thousandths.
fn busyness(host: &Host) -> i64 {
    let of = |totals: &Totals| totals.get(CPU).copied().unwrap_or(0);
    of(&host.taken).saturating_mul(1000) / of(&host.room).max(1)
}

async fn bind_directly(client: &kube::Client, pod: &Pod, node: &str) -> Result<(), String> {
    let binding = json!({
        "metadata": {"name": pod.name_any(), "namespace": pod.namespace(), "uid": pod.uid()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let created: Result<serde_json::Value, kube::Error> = pods
        .create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding)
        .await;
    created.map(drop).map_err(|error| error.to_string())
}
