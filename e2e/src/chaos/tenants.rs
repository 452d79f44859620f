//! What tenants do, each with the role `edit` in a namespace of its own.

use anyhow::{Context, Result, ensure};
use gpushare_core::names;
use gpushare_rig::Rig;
use serde_json::{Value, json};

use super::plan::{Behaviour, Deletion, METERED, Shape, Slot, TENANTS};
use crate::manifest::IMAGE;
use crate::wait;

/// What a tenant tries to change of its pod, as merge patches. Some of it must be refused; nothing of it may change what
/// the pod holds.
pub const EDITS: [&str; 17] = [
    r#"{"metadata":{"annotations":{"gpushare.io/policy":"x"}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/card-models":","}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/card-ids":""}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/exclude-card-ids":","}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/exclude-card-models":"--"}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/policy":null,"gpushare.io/card-models":null,"gpushare.io/card-ids":null,"gpushare.io/exclude-card-ids":null,"gpushare.io/exclude-card-models":null}}}"#,
    r#"{"metadata":{"annotations":null}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/allocation":null}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/allocation":"{}"}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/preemption":"{}"}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/woken":"now","gpushare.io/evict-at":"2020-01-01T00:00:00Z"}}}"#,
    r#"{"metadata":{"annotations":{"gpushare.io/over-budget":"metered","gpushare.io/back-in-budget":"metered"}}}"#,
    r#"{"metadata":{"labels":{"app":"other","gpushare.io/team":"other"}}}"#,
    r#"{"metadata":{"labels":null}}"#,
    r#"{"metadata":{"finalizers":null}}"#,
    r#"{"metadata":{"finalizers":["example.com/kept"]}}"#,
    r#"{"spec":{"activeDeadlineSeconds":1}}"#,
];

/// Namespaces and accounts for them, and a budget for one.
pub fn settle(rig: &Rig) {
    for namespace in TENANTS {
        let within = format!("--namespace={namespace}");
        let account = format!("--serviceaccount={namespace}:tenant");
        let bind = ["create", "rolebinding", "tenant", "--clusterrole=edit"];
        rig.kubectl(&["create", "namespace", namespace])
            .expect("created");
        rig.kubectl(&["create", "serviceaccount", "tenant", &within])
            .expect("created");
        rig.kubectl(&[&bind[..], &[&account, &within]].concat())
            .expect("bound");
        wait::until("the default account", || {
            rig.kubectl(&["get", "serviceaccount", "default", &within])
        });
    }
    let budget = json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": METERED},
        "spec": {"amount": "100000h", "namespaces": {"names": [METERED]}},
    });
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
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), pod(probe, shape).to_string())?;
        let path = file.path().to_str().context("a path")?;
        let create = [
            "create",
            "--dry-run=server",
            "--output=json",
            "--filename",
            path,
        ];
        let made: Value = serde_json::from_str(&rig.kubectl(&create)?)?;
        let finalizers = made["metadata"]["finalizers"].to_string();
        ensure!(finalizers.contains(names::METERING), "{finalizers}");
        anyhow::Ok(())
    });
}

pub fn create(rig: &Rig, slot: Slot, shape: Shape) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), pod(slot, shape).to_string())?;
    let path = file.path().to_str().context("a path")?;
    act(rig, slot, &["create", "--filename", path])
}

pub fn delete(rig: &Rig, slot: Slot, how: Deletion) -> Result<()> {
    let name = slot.name();
    let delete = ["delete", "pod", &name, "--wait=false"];
    let forced = [&delete[..], &["--force", "--grace-period=0"]].concat();
    match how {
        Deletion::Plain => act(rig, slot, &delete),
        Deletion::LongThenForced => {
            act(rig, slot, &[&delete[..], &["--grace-period=60"]].concat())?;
            act(rig, slot, &forced)
        }
        Deletion::Forced => act(rig, slot, &forced),
    }
}

pub fn edit(rig: &Rig, slot: Slot, number: usize) -> Result<()> {
    let patch = EDITS.get(number).context("there is such an edit")?;
    let name = slot.name();
    act(
        rig,
        slot,
        &["patch", "pod", &name, "--type=merge", "--patch", patch],
    )
}

/// kubectl as the tenant of the slot's namespace.
fn act(rig: &Rig, slot: Slot, args: &[&str]) -> Result<()> {
    let namespace = slot.namespace();
    let tenant = format!("--as=system:serviceaccount:{namespace}:tenant");
    let common = ["--namespace", namespace, &tenant, "--request-timeout=5s"];
    rig.kubectl(&[args, &common].concat()).map(drop)
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
            // Its own network for each would only cost time.
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
            let patch: Value = serde_json::from_str(edit).expect(edit);
            assert!(patch.is_object(), "{edit}");
        }
    }
}
