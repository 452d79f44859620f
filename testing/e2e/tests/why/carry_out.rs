//! Sets up a case, asks `why`, and does exactly what the answer says.

use std::fs;

use anyhow::ensure;
use e2e::kubectl::wait_for_account;
use e2e::manifest::priority_class;
use e2e::paper::{Paper, PaperNode};
use e2e::{Kubectl, wait};
use serde_json::{Value, json};

use crate::cases::{Asked, Case};

pub(crate) const NAMESPACE: &str = "case";
/// How kubectl deletes objects at once.
const NOW: &str = "--grace-period=0 --force";

pub(crate) struct Stage<'a> {
    paper: &'a Paper,
    case: &'a Case,
    manifest: tempfile::NamedTempFile,
}

impl<'a> Stage<'a> {
    pub(crate) fn set(paper: &'a Paper, case: &'a Case) -> Self {
        for node in &case.nodes {
            paper.set_node(node);
        }
        paper.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        wait_for_account(paper.place().0, NAMESPACE);
        for object in &case.before {
            paper.apply(&inside(object.clone()));
            let name = object["metadata"]["name"].as_str().unwrap();
            match object["kind"].as_str().unwrap() {
                "Pod" => {
                    paper.wait_bound(NAMESPACE, name);
                }
                "ResourceQuota" => wait_counted(paper, name),
                _ => {}
            }
        }
        let manifest = tempfile::NamedTempFile::new().unwrap();
        fs::write(manifest.path(), case.subject.to_string()).unwrap();
        let stage = Self {
            paper,
            case,
            manifest,
        };
        match &case.asked {
            Asked::File => {}
            Asked::Pod => {
                paper.apply(&inside(case.subject.clone()));
                stage.wait_refused();
            }
            Asked::Workload(_) => {
                paper.apply(&inside(case.subject.clone()));
                wait::until("the workload to be refused its pod", || {
                    let events = paper.ctl(&format!("get events --namespace={NAMESPACE}"))?;
                    let refused =
                        events.contains("FailedCreate") || events.contains("FailedScheduling");
                    ensure!(refused, "{events}");
                    Ok(())
                });
            }
        }
        stage
    }

    fn name(&self) -> &str {
        self.case.subject["metadata"]["name"].as_str().unwrap()
    }

    fn pod(&self) -> anyhow::Result<Value> {
        let name = self.name();
        self.paper
            .get(&format!("pod {name} --namespace={NAMESPACE}"))
    }

    /// Waits until the scheduler has refused the pod, unless no scheduler will ever look at it.
    fn wait_refused(&self) {
        if self.case.nobody_looks {
            return;
        }
        wait::until("the pod to be refused", || {
            let pod = self.pod()?;
            let conditions = pod["status"]["conditions"].as_array().cloned();
            let refused = conditions.into_iter().flatten().any(|condition| {
                condition["type"] == "PodScheduled" && condition["status"] == "False"
            });
            ensure!(refused, "{}", pod["status"]);
            Ok(())
        });
    }

    pub(crate) fn ask(&self) -> Value {
        let file = self.manifest.path().to_str().unwrap();
        let mut args = match &self.case.asked {
            Asked::File => vec!["why", "--file", file],
            Asked::Pod => vec!["why", self.name()],
            Asked::Workload(name) => vec!["why", *name],
        };
        args.extend(["--namespace", NAMESPACE, "--output", "json"]);
        let output = self.paper.plugin(&args);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {complaint}", self.case.name);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Does every step, and returns how many of them are not a patch or a deletion.
    pub(crate) fn carry_out(&self, help: &Value) -> usize {
        let mut by_hand = 0;
        for step in help["steps"].as_array().unwrap() {
            let target = &step["target"];
            let kind = target["kind"].as_str().unwrap();
            match step["action"].as_str().unwrap() {
                "patch" => self.patch(kind, target, &step["patch"]),
                "delete" => self.delete(target),
                "operate" => {
                    by_hand += 1;
                    self.operate(step["operation"].as_str().unwrap(), target);
                }
                other => panic!("{other}"),
            }
        }
        if matches!(self.case.asked, Asked::File) {
            let manifest = fs::read_to_string(self.manifest.path()).unwrap();
            let manifest: Value = serde_json::from_str(&manifest).unwrap();
            self.paper.apply(&inside(manifest));
        }
        by_hand
    }

    fn patch(&self, kind: &str, target: &Value, patch: &Value) {
        let name = target["name"].as_str().unwrap();
        let own = name == self.name() && kind == self.case.subject["kind"];
        if own && matches!(self.case.asked, Asked::File) {
            let text = fs::read_to_string(self.manifest.path()).unwrap();
            let changed = patched(serde_json::from_str(&text).unwrap(), patch);
            fs::write(self.manifest.path(), changed.to_string()).unwrap();
        } else if own && kind == "Pod" {
            let changed = patched(self.pod().unwrap(), patch);
            self.delete(target);
            self.paper.apply(&as_written(changed));
        } else {
            let namespace = target["namespace"].as_str();
            let within = namespace.map_or(String::new(), |name| format!("--namespace={name}"));
            let what = format!("{kind} {name} --type=json {within}");
            self.paper.patch(&what, patch).unwrap();
            if kind == "ResourceQuota" {
                wait_counted(self.paper, name);
            }
        }
    }

    fn delete(&self, target: &Value) {
        let name = target["name"].as_str().unwrap();
        let namespace = target["namespace"].as_str().unwrap();
        let delete = format!("delete pod {name} --namespace={namespace} {NOW}");
        self.paper.ctl(&delete).unwrap();
    }

    /// What an operator does at a machine, as far as the API server sees it.
    fn operate(&self, what: &str, target: &Value) {
        let name = target["name"].as_str().unwrap();
        let node = self.case.nodes.iter().find(|node| node.name == name);
        let repaired = |change: fn(&mut PaperNode)| {
            let mut node = node.unwrap().clone();
            change(&mut node);
            self.paper.set_node(&node);
        };
        match what {
            "run-agent" => repaired(|node| node.offers = true),
            "repair-cards" => repaired(|node| node.healthy = true),
            "repair-node" => repaired(|node| node.spec = json!({})),
            "create" if target["kind"] == "PriorityClass" => {
                self.paper.apply(&priority_class(name, 1));
            }
            "create" => {
                let spec = json!({"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/tmp"}, "storageClassName": "none"});
                self.paper
                    .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolume",
                    "metadata": {"name": "paper"}, "spec": spec}));
                let spec = json!({"volumeName": "paper", "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}});
                self.paper.apply(&inside(
                    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name}, "spec": spec}),
                ));
            }
            other => panic!("{other}"),
        }
    }

    pub(crate) fn wait_scheduled(&self) {
        match self.case.subject["kind"].as_str().unwrap() {
            "Pod" => {
                let node = self.paper.wait_bound(NAMESPACE, self.name());
                let known = self.case.nodes.iter().any(|known| known.name == node);
                assert!(known, "{node}");
            }
            _ => {
                self.paper.wait_bound(NAMESPACE, "--selector=app=subject");
            }
        }
    }

    pub(crate) fn clear(self) {
        for what in [
            "deployments,replicasets,statefulsets,jobs",
            "pods",
            "resourcequotas,persistentvolumeclaims,events",
        ] {
            let all = format!("--all --namespace={NAMESPACE} {NOW}");
            self.paper.ctl(&format!("delete {what} {all}")).unwrap();
        }
        wait::until("the pods to be gone", || {
            let left = format!("get pods --namespace={NAMESPACE} --output=name");
            let left = self.paper.ctl(&left)?;
            ensure!(left.trim().is_empty(), "{left}");
            Ok(())
        });
        let nodes: Vec<&str> = self.case.nodes.iter().map(|node| node.name).collect();
        let delete = format!("delete node {}", nodes.join(" "));
        self.paper.ctl(&delete).unwrap();
        let _ = self
            .paper
            .ctl("delete persistentvolume,priorityclass paper --ignore-not-found");
    }
}

fn inside(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(NAMESPACE);
    object
}

fn patched(mut object: Value, patch: &Value) -> Value {
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

/// A pod as its author could have written it: without what the API server and the scheduler added.
fn as_written(mut pod: Value) -> Value {
    pod.as_object_mut().unwrap().remove("status");
    let metadata = pod["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
    ] {
        metadata.remove(field);
    }
    pod
}

/// Waits until Kubernetes has counted the existing pods.
fn wait_counted(paper: &Paper, quota: &str) {
    wait::until("the quota to be in force", || {
        let quota = paper.get(&format!("resourcequota {quota} --namespace={NAMESPACE}"))?;
        let (wanted, counted) = (&quota["spec"]["hard"], &quota["status"]["hard"]);
        ensure!(
            wanted == counted && quota["status"]["used"].is_object(),
            "{quota}"
        );
        Ok(())
    });
}
