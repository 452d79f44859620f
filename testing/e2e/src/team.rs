//! A namespace of a test, whose budget has the namespace's name.

use std::sync::Arc;

use anyhow::{Result, ensure};
use gpushare_rig::Rig;
use serde_json::{Value, json};

use crate::kubectl::{Kubectl, create_namespace, refusal};
use crate::{manifest, wait};

#[derive(Clone, Debug)]
pub struct Team {
    pub name: String,
    rig: Arc<Rig>,
}

impl Kubectl for Team {
    fn place(&self) -> (&Rig, Option<&str>) {
        (&self.rig, Some(&self.name))
    }
}

impl Team {
    /// Creates the namespace, without a budget.
    pub(crate) fn create(rig: &Arc<Rig>, name: String) -> Self {
        create_namespace(rig, &name);
        let rig = rig.clone();
        Self { name, rig }
    }

    // --- the budget

    /// Creates the budget, and waits until the webhook knows it.
    pub fn give_budget(&self, spec: &Value) {
        let mut spec = spec.clone();
        spec["namespaces"] = json!({"names": [self.name]});
        let budget = manifest::budget(&self.name, &spec).to_string();
        self.rig.apply(&budget).expect("the budget is accepted");
        self.wait_for_class("gpushare-in-budget");
    }

    /// Waits until the webhook gives this class to new pods.
    pub fn wait_for_class(&self, class: &str) {
        let probe = manifest::pod("probe", manifest::aliyun(1));
        let awaited = format!("the class {class} in {}", self.name);
        wait::until(&awaited, || -> Result<()> {
            let pod = self.dry_run(&probe)?;
            let given = &pod["spec"]["priorityClassName"];
            ensure!(given == class, "{given}");
            Ok(())
        });
    }

    pub fn budget(&self) -> Value {
        let budget = self.rig.get(&format!("gpubudget {}", self.name));
        budget.expect("the budget is there")
    }

    /// Waits until the condition holds for the budget's status, and returns the status.
    pub fn wait_budget(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let what = format!("budget {}: {what}", self.name);
        wait::until_seen(&what, || self.budget()["status"].clone(), holds)
    }

    pub fn wait_exhausted(&self) -> Value {
        self.wait_budget("it is exhausted", |status| status["exhausted"] == true)
    }

    /// Makes the budget so small that it is exhausted, or large again.
    pub fn exhaust(&self, exhausted: bool) {
        let amount = if exhausted { json!(1) } else { json!("1000h") };
        let patch = json!({"spec": {"amount": amount}});
        let budget = format!("gpubudget {} --type=merge", self.name);
        self.rig.patch(&budget, &patch).expect("patched");
        self.wait_budget("its state is known", |status| {
            status["exhausted"] == exhausted
        });
    }

    // --- its pods

    /// Waits until the pod has ended by itself and is charged.
    pub fn wait_charged(&self, name: &str) -> Value {
        self.wait_pod(name, "it has ended and is charged", |pod| {
            let ended = ["Succeeded", "Failed"].map(Value::from);
            ended.contains(&pod["status"]["phase"]) && pod["metadata"]["finalizers"].is_null()
        })
    }

    pub fn annotation(&self, pod: &str, name: &str) -> Result<Option<String>> {
        let pod = self.pod(pod)?;
        let value = &pod["metadata"]["annotations"][name];
        Ok(value.as_str().map(str::to_owned))
    }

    /// Waits until the pod has this annotation, or does not have it.
    pub fn wait_mark(&self, pod: &str, name: &str, present: bool) -> Option<String> {
        wait::until(&format!("{name} on {pod}: {present}"), || {
            let found = self.annotation(pod, name)?;
            ensure!(found.is_some() == present, "{found:?}");
            Ok(found)
        })
    }

    pub fn wait_told_to_go(&self, name: &str) {
        let what = format!("{name} to be told to go");
        wait::until_seen(&what, || self.is_left(name), |left| !left);
    }

    pub fn wait_unschedulable(&self, name: &str) {
        self.wait_pod(name, "the scheduler refuses it", |pod| {
            let conditions = pod["status"]["conditions"].to_string();
            conditions.contains("Unschedulable")
        });
    }

    /// Frees the cards for the next test. A timekeeper must run.
    pub fn leave(&self) {
        self.ctl("delete deployments,pods --all --wait=false")
            .expect("deleted");
        wait::until("the pods to be gone", || -> Result<()> {
            let pods = self.pods()?;
            ensure!(pods.is_empty(), "{pods:?}");
            Ok(())
        });
    }

    // --- its tenant

    /// Gives the user `tenant` the rights of an editor.
    pub fn admit_tenant(&self) {
        self.ctl("create rolebinding tenant --clusterrole=edit --user=tenant")
            .expect("bound");
    }

    /// The error that the tenant gets.
    pub fn refused(&self, command: &str) -> String {
        refusal(self.ctl(&format!("{command} --as=tenant")))
    }

    /// The error that the tenant gets for an object. Sends no resource version: a status that the kubelet writes
    /// meanwhile must not be the reason for the refusal.
    pub fn refused_object(&self, command: &str, object: &Value) -> String {
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.remove("resourceVersion");
        refusal(self.send(&format!("{command} --as=tenant"), &object))
    }

    /// The error that the tenant gets for a patch.
    pub fn refused_patch(&self, what: &str, patch: &Value) -> String {
        refusal(self.patch(&format!("{what} --as=tenant"), patch))
    }

    /// Gives the tenant more rights than an editor has, so that only the policies can refuse a request.
    pub fn grant(&self, resource: &str, verb: &str) {
        let name = format!("{verb}-{}", resource.replace('/', "-"));
        for create in [
            format!("create role {name} --verb={verb} --resource={resource}"),
            format!("create rolebinding {name} --role={name} --user=tenant"),
        ] {
            self.ctl(&create).expect("granted");
        }
    }
}
