//! What tenants do, each with the role `edit` in a namespace of its own.

use anyhow::{Context, Result, ensure};
use gpushare_core::names;
use gpushare_rig::Rig;
use serde_json::{Value, json};

use super::plan::{Behaviour, Deletion, METERED, Shape, Slot, TENANTS};
use crate::kubectl::{Kubectl, create_namespace};
use crate::manifest::{self, IMAGE};
use crate::wait;

/// A change that a tenant tries to make to its pod.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// A merge patch, which replaces lists as a whole.
    Merge(&'static str),
    /// A strategic merge patch, which finds containers by their names.
    Strategic(&'static str),
    /// Through the subresource that changes the resources of running containers.
    Resize(&'static str),
}

/// What a tenant tries to change in its pod. Some changes must be refused; none may change what the pod holds.
pub const EDITS: [Edit; 22] = [
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/policy":"x"}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/card-models":","}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/card-ids":""}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/exclude-card-ids":","}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/exclude-card-models":"--"}}}"#),
    Edit::Merge(
        r#"{"metadata":{"annotations":{"gpushare.io/policy":null,"gpushare.io/card-models":null,"gpushare.io/card-ids":null,"gpushare.io/exclude-card-ids":null,"gpushare.io/exclude-card-models":null}}}"#,
    ),
    Edit::Merge(r#"{"metadata":{"annotations":null}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/allocation":null}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/allocation":"{}"}}}"#),
    Edit::Merge(r#"{"metadata":{"annotations":{"gpushare.io/preemption":"{}"}}}"#),
    Edit::Merge(
        r#"{"metadata":{"annotations":{"gpushare.io/woken":"now","gpushare.io/evict-at":"2020-01-01T00:00:00Z"}}}"#,
    ),
    Edit::Merge(
        r#"{"metadata":{"annotations":{"gpushare.io/over-budget":"metered","gpushare.io/back-in-budget":"metered"}}}"#,
    ),
    Edit::Merge(r#"{"metadata":{"labels":{"app":"other","gpushare.io/team":"other"}}}"#),
    Edit::Merge(r#"{"metadata":{"labels":null}}"#),
    Edit::Merge(r#"{"metadata":{"finalizers":null}}"#),
    Edit::Merge(r#"{"metadata":{"finalizers":["example.com/kept"]}}"#),
    Edit::Merge(r#"{"spec":{"activeDeadlineSeconds":1}}"#),
    // The container ends, and none can start until the image exists.
    Edit::Strategic(r#"{"spec":{"containers":[{"name":"c","image":"gpushare.test/none:1"}]}}"#),
    Edit::Strategic(r#"{"spec":{"containers":[{"name":"c","image":"gpushare.test/busybox:1"}]}}"#),
    // Tolerations can only be added, so the two that every pod gets are repeated here.
    Edit::Merge(
        r#"{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"example.com/any","operator":"Exists","effect":"NoSchedule"}]}}"#,
    ),
    // The garbage collector deletes a pod whose owner does not exist.
    Edit::Merge(
        r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"7b1b9f0e-6f0e-4c53-9f5e-2f8f1c1d0a11"}]}}"#,
    ),
    Edit::Resize(
        r#"{"spec":{"containers":[{"name":"c","resources":{"limits":{"gpushare.io/gpu-mem":"1024"},"requests":{"gpushare.io/gpu-mem":"1024"}}}]}}"#,
    ),
];

impl Edit {
    /// The patch, and the arguments that kubectl needs for it.
    fn arguments(self) -> (&'static str, &'static str) {
        match self {
            Self::Merge(patch) => (patch, "--type=merge"),
            Self::Strategic(patch) => (patch, "--type=strategic"),
            Self::Resize(patch) => (patch, "--type=strategic --subresource=resize"),
        }
    }
}

/// Creates the namespaces and their accounts, and a budget for one of them.
pub fn settle(rig: &Rig) {
    for namespace in TENANTS {
        create_namespace(rig, namespace);
        for create in [
            format!("serviceaccount tenant --namespace={namespace}"),
            format!(
                "rolebinding tenant --clusterrole=edit --serviceaccount={namespace}:tenant --namespace={namespace}"
            ),
        ] {
            rig.ctl(&format!("create {create}")).expect("created");
        }
    }
    let spec = json!({"amount": "100000h", "namespaces": {"names": [METERED]}});
    let budget = manifest::budget(METERED, &spec);
    rig.apply(&budget.to_string()).expect("a budget");
    wait::until("pods of the metered namespace to be metered", || {
        let probe = Slot {
            metered: true,
            number: 0,
        };
        let shape = Shape {
            gib: 2,
            cards: 1,
            behaviour: Behaviour::Obedient,
        };
        let made = rig.dry_run(&pod(probe, shape))?;
        let finalizers = made["metadata"]["finalizers"].to_string();
        ensure!(finalizers.contains(names::METERING), "{finalizers}");
        anyhow::Ok(())
    });
}

pub fn create(rig: &Rig, slot: Slot, shape: Shape) -> Result<()> {
    let create = format!("create {}", tenant(slot));
    rig.send(&create, &pod(slot, shape)).map(drop)
}

pub fn delete(rig: &Rig, slot: Slot, how: Deletion) -> Result<()> {
    let delete = |flags: &str| {
        let (name, tenant) = (slot.name(), tenant(slot));
        rig.ctl(&format!("delete pod {name} --wait=false {flags} {tenant}"))
            .map(drop)
    };
    let forced = "--force --grace-period=0";
    match how {
        Deletion::Plain => delete(""),
        Deletion::LongThenForced => {
            delete("--grace-period=60")?;
            delete(forced)
        }
        Deletion::Forced => delete(forced),
        Deletion::Evicted => evict(rig, slot),
    }
}

fn evict(rig: &Rig, slot: Slot) -> Result<()> {
    let (namespace, name) = (slot.namespace(), slot.name());
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    });
    let place = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let create = format!("create --raw {place} {}", tenant(slot));
    rig.send(&create, &eviction).map(drop)
}

pub fn edit(rig: &Rig, slot: Slot, number: usize) -> Result<()> {
    let edit = EDITS.get(number).context("there is such an edit")?;
    let (patch, how) = edit.arguments();
    let change = format!("patch pod {} {how} {}", slot.name(), tenant(slot));
    let change = change.split_whitespace().chain(["--patch", patch]);
    rig.kubectl(&change.collect::<Vec<_>>()).map(drop)
}

/// What makes kubectl act as the tenant of the slot's namespace.
fn tenant(slot: Slot) -> String {
    let namespace = slot.namespace();
    format!(
        "--namespace={namespace} --as=system:serviceaccount:{namespace}:tenant --request-timeout=5s"
    )
}

fn pod(slot: Slot, shape: Shape) -> Value {
    let (script, grace) = match shape.behaviour {
        Behaviour::Obedient => {
            let run = "trap 'exit 0' TERM; while true; do sleep 3600 & wait $!; done";
            (run.to_owned(), 5)
        }
        Behaviour::Stubborn { grace } => (
            "trap '' TERM; while true; do sleep 1; done".to_owned(),
            grace,
        ),
        Behaviour::Job { seconds } => (format!("sleep {seconds}"), 2),
    };
    let policy = match shape.behaviour {
        Behaviour::Job { .. } => "Never",
        Behaviour::Obedient | Behaviour::Stubborn { .. } => "Always",
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": slot.name(), "namespace": slot.namespace(), "labels": {"app": "chaos"}},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "restartPolicy": policy,
            // A network of its own would only cost each pod time.
            "hostNetwork": true,
            "containers": [{
                "name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
                "resources": {"limits": {
                    names::GPU: shape.cards.to_string(),
                    names::GPU_MEM: (shape.gib * 1024).to_string(),
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_is_a_patch() {
        for edit in EDITS {
            let (patch, _) = edit.arguments();
            let read: Value = serde_json::from_str(patch).expect(patch);
            assert!(read.is_object(), "{patch}");
        }
    }

    #[test]
    fn one_edit_takes_the_image_away_and_one_brings_it_back() {
        let images = EDITS.iter().filter_map(|edit| {
            let patch: Value = serde_json::from_str(edit.arguments().0).ok()?;
            let image = &patch["spec"]["containers"][0]["image"];
            image.as_str().map(|image| image == IMAGE)
        });
        assert_eq!(images.collect::<Vec<_>>(), [false, true]);
    }
}
