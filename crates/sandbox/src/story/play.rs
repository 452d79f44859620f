//! Plays a story on a cluster: performs each step and prints it.

use std::collections::BTreeSet;
use std::io::Write;

use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::slim;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt, discovery};
use serde_json::Value;

use super::{Expectation, Step, Story, Target, View, What};
use crate::error::SandboxError;
use crate::pace::Pace;
use crate::{fleet, install, wait};

/// Plays stories and prints them to `out`.
pub struct Player<'a, W> {
    client: Client,
    pace: Pace,
    out: &'a mut W,
}

impl<W> std::fmt::Debug for Player<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Player")
    }
}

impl<'a, W: Write> Player<'a, W> {
    pub fn new(client: Client, speed: u32, out: &'a mut W) -> Self {
        Self {
            client,
            pace: Pace::new(speed),
            out,
        }
    }

    /// Plays to the end, or to the first expectation that fails.
    pub async fn play(&mut self, story: &Story) -> Result<(), SandboxError> {
        self.tell(&format!("\n== {} ==", story.title));
        for (number, step) in (1..).zip(&story.steps) {
            let played = self.step(step).await;
            played.map_err(|source| SandboxError::Step {
                number,
                source: Box::new(source),
            })?;
        }
        self.tell("\n== end of the story ==");
        Ok(())
    }

    /// Prints a line. The story continues even if its reader has gone away.
    fn tell(&mut self, text: &str) {
        let _unread = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    async fn step(&mut self, step: &Step) -> Result<(), SandboxError> {
        match step {
            Step::Say(text) => self.tell(&format!("\n{}", text.trim_end())),
            Step::Pause(time) => tokio::time::sleep(self.pace.of(*time)).await,
            Step::Apply(objects) => {
                for object in objects {
                    install::apply(&self.client, object).await?;
                    let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or("");
                    let (kind, name) = (text("/kind"), text("/metadata/name"));
                    self.tell(&format!("  $ kubectl apply   # {kind} {name}"));
                }
            }
            Step::Delete(target) => {
                self.delete(target).await?;
                let (kind, name) = (&target.kind, &target.name);
                self.tell(&format!("  $ kubectl delete  # {kind} {name}"));
            }
            Step::Wait(expectation) => {
                let seen = self.wait(expectation).await?;
                self.tell(&format!("  -> {seen}"));
            }
            Step::Show(View::Cards) => {
                let cards = self.cards().await?;
                self.tell("  $ kubectl gpushare cards");
                for line in cards.lines() {
                    self.tell(&format!("    {line}"));
                }
            }
        }
        Ok(())
    }

    async fn delete(&self, target: &Target) -> Result<(), SandboxError> {
        let what = format!("delete {} {}", target.kind, target.name);
        let (group, version) = target
            .api_version
            .split_once('/')
            .unwrap_or(("", &target.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &target.kind);
        let found: Result<(ApiResource, _), _> = discovery::pinned_kind(&self.client, &gvk).await;
        let (resource, _) = found.map_err(SandboxError::api(&what))?;
        let api: Api<DynamicObject> = match &target.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let deleted = api.delete(&target.name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(SandboxError::api(what))
    }

    async fn wait(&self, expectation: &Expectation) -> Result<String, SandboxError> {
        let described = expectation.what.to_string();
        wait::until(&described, expectation.within, async || {
            self.check(&expectation.what).await
        })
        .await
    }

    /// Describes what was found; as an error if the expectation has not come true.
    async fn check(&self, what: &What) -> Result<String, String> {
        let failed = |error: kube::Error| error.to_string();
        match what {
            What::Available(name) => {
                let found = self.api::<Deployment>(name).get(last(name)).await;
                let found = found.map_err(failed)?;
                let wanted = found.spec.replicas.unwrap_or(1);
                let ready = found.status.and_then(|status| status.ready_replicas);
                let seen = format!("{name}: {} of {wanted} pods ready", ready.unwrap_or(0));
                if ready == Some(wanted) {
                    Ok(seen)
                } else {
                    Err(seen)
                }
            }
            What::Funded(name) | What::Exhausted(name) => {
                let budgets: Api<GpuBudget> = Api::all(self.client.clone());
                let status = budgets.get(name).await.map_err(failed)?.status;
                let status = status.ok_or_else(|| format!("budget {name} has no status yet"))?;
                let remaining = status.remaining.as_deref().unwrap_or("nothing");
                let seen = format!("budget {name}: {remaining} left");
                let wanted = matches!(what, What::Exhausted(_));
                let known = status.remaining.is_some();
                if known && status.exhausted == wanted {
                    Ok(seen)
                } else {
                    Err(seen)
                }
            }
            What::Gone(name) => match self.pod(name).await.map_err(failed)? {
                None => Ok(format!("{name} is gone")),
                Some(pod) => Err(describe(name, &pod)),
            },
            What::Running(name) => self.phase(name, "Running").await,
            What::Succeeded(name) => self.phase(name, "Succeeded").await,
            What::Refused(name) => {
                let pod = self.pod(name).await.map_err(failed)?;
                let pod = pod.ok_or_else(|| format!("{name} does not exist"))?;
                let why = refusal(&pod).ok_or_else(|| describe(name, &pod))?;
                Ok(format!("{name} waits: {why}"))
            }
        }
    }

    async fn phase(&self, name: &str, wanted: &str) -> Result<String, String> {
        let pod = self.pod(name).await.map_err(|error| error.to_string())?;
        let pod = pod.ok_or_else(|| format!("{name} does not exist"))?;
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if phase == Some(wanted) {
            Ok(describe(name, &pod))
        } else {
            Err(describe(name, &pod))
        }
    }

    async fn pod(&self, name: &str) -> Result<Option<Pod>, kube::Error> {
        self.api::<Pod>(name).get_opt(last(name)).await
    }

    fn api<K>(&self, name: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let namespace = name
            .split_once('/')
            .map_or("default", |(namespace, _)| namespace);
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn cards(&self) -> Result<String, SandboxError> {
        let what = || SandboxError::api("read nodes and pods");
        let nodes: Api<slim::Node> = Api::all(self.client.clone());
        let pods: Api<slim::Pod> = Api::all(self.client.clone());
        let mut nodes = nodes
            .list(&ListParams::default())
            .await
            .map_err(what())?
            .items;
        let pods = pods
            .list(&ListParams::default())
            .await
            .map_err(what())?
            .items;
        keep_telling(&mut nodes, &pods);
        kubectl_gpushare::cards_text(&nodes, &pods).map_err(|error| SandboxError::Scenario {
            path: "cards".to_owned(),
            reason: error.to_string(),
        })
    }
}

/// Shortens the list of a large cluster to a readable length; nodes with pods are kept first.
fn keep_telling(nodes: &mut Vec<slim::Node>, pods: &[slim::Pod]) {
    if nodes.len() <= fleet::AGENTS {
        return;
    }
    let busy: BTreeSet<&str> = pods
        .iter()
        .filter_map(|pod| pod.spec.node_name.as_deref())
        .collect();
    // The sort is stable, so both parts keep their order.
    nodes.sort_by_key(|node| !busy.contains(node.name_any().as_str()));
    nodes.truncate(fleet::AGENTS);
    nodes.sort_by_key(ResourceExt::name_any);
}

fn last(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

fn describe(name: &str, pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("?");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let class = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.priority_class_name.as_deref());
    let mut text = format!("{name} is {phase}");
    if let Some(node) = node {
        text = format!("{text} on {node}");
    }
    if let Some(class) = class {
        text = format!("{text} (priority class {class})");
    }
    match refusal(pod) {
        Some(why) if node.is_none() => format!("{text}: {why}"),
        _ => text,
    }
}

/// The scheduler's message about a pod that it cannot place.
fn refusal(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut scheduled = conditions
        .iter()
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    scheduled.next()?.message.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_many_nodes_those_with_pods_are_shown() {
        let node = |number: usize| {
            let name = format!("n{number:04}");
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
        };
        let mut nodes: Vec<slim::Node> = (0..5000).map(node).collect();
        let pods: Vec<slim::Pod> = ["n4000", "n0700"]
            .map(|node| {
                let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node}});
                serde_json::from_value(pod).unwrap()
            })
            .into();
        keep_telling(&mut nodes, &pods);
        let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names.len(), fleet::AGENTS);
        assert_eq!(names[0], "n0000");
        assert!(
            names.ends_with(&["n0700".to_owned(), "n4000".to_owned()]),
            "{names:?}"
        );
    }
}
