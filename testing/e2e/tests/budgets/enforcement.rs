//! What happens to pods when their budget is exhausted and when it has something left again: on the real scheduler,
//! through the real Eviction API, against everything that tenants may try.

mod demotion;
mod evasion;
mod eviction;
mod waiting;

use anyhow::{Result, ensure};
use e2e::wait;
use serde_json::{Value, json};

use crate::SHARED;

const OVER: &str = "gpushare.io/over-budget";
const RESTORED: &str = "gpushare.io/back-in-budget";
const EVICT_AT: &str = "gpushare.io/evict-at";
const AS_TENANT: &str = "--as=tenant";
const ALONE: &str = "written by the gpushare timekeeper alone";
const ASKED: &str = "gpushare_extender_requests_total{verb=\"preempt\",code=\"200\"}";

/// A namespace with a budget, in which `tenant` has the rights of an editor. Its pods are deleted at the end.
struct Team {
    name: String,
}

impl Team {
    /// A team with a budget that is large enough for every test.
    fn new(when_exhausted: &str, grace: Option<i64>) -> Self {
        Self::with(json!({
            "amount": "1000h", "period": {"kind": "Rolling", "window": "7d"},
            "whenExhausted": when_exhausted, "graceSeconds": grace,
        }))
    }

    fn with(mut spec: Value) -> Self {
        spec.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let team = Self {
            name: SHARED.team(&spec),
        };
        let bind = [
            "create",
            "rolebinding",
            "tenant",
            "--clusterrole=edit",
            "--user=tenant",
        ];
        team.kubectl(&bind).unwrap();
        team
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        let namespace = ["--namespace", &self.name];
        SHARED.world.rig().kubectl(&[args, &namespace].concat())
    }

    fn object(&self, args: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(
            &self.kubectl(&[args, &["--output=json"]].concat())?,
        )?)
    }

    fn creates(&self, pod: &Value) {
        SHARED.create(&self.name, pod);
    }

    fn runs(&self, pod: &Value) {
        self.creates(pod);
        SHARED.wait_running(&self.name, pod["metadata"]["name"].as_str().unwrap());
    }

    fn pod(&self, name: &str) -> Result<Value> {
        SHARED.pod(&self.name, name)
    }

    /// Makes the budget so small that it is exhausted, or large again.
    fn exhaust(&self, exhausted: bool) {
        self.amount(if exhausted { json!(1) } else { json!("1000h") });
        SHARED.wait_budget(&self.name, "its state is known", |status| {
            status["exhausted"] == exhausted
        });
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers build it in place")]
    fn amount(&self, amount: Value) {
        let patch = json!({"spec": {"amount": amount}}).to_string();
        let patch = [
            "patch",
            "gpubudget",
            &self.name,
            "--type=merge",
            "-p",
            &patch,
        ];
        SHARED.world.rig().kubectl(&patch).unwrap();
    }

    fn annotation(&self, pod: &str, name: &str) -> Result<Option<String>> {
        let pod = self.pod(pod)?;
        let value = &pod["metadata"]["annotations"][name];
        Ok(value.as_str().map(str::to_owned))
    }

    fn wait_mark(&self, pod: &str, name: &str, present: bool) -> Option<String> {
        wait::until(&format!("{name} on {pod}: {present}"), || {
            let found = self.annotation(pod, name)?;
            ensure!(found.is_some() == present, "{found:?}");
            Ok(found)
        })
    }

    fn wait_event(&self, pod: &str, part: &str) -> String {
        wait::until(&format!("an event on {pod} with {part:?}"), || {
            let about = format!("--field-selector=involvedObject.name={pod}");
            let events = self.object(&["get", "events", &about])?;
            let events = events["items"].as_array().cloned().unwrap_or_default();
            let messages = events.iter().filter_map(|event| event["message"].as_str());
            let messages: Vec<&str> = messages.collect();
            let found = messages.iter().find(|message| message.contains(part));
            found
                .map(|message| (*message).to_owned())
                .ok_or_else(|| anyhow::anyhow!("{messages:?}"))
        })
    }

    /// Whether the pod runs and was not told to end.
    fn is_left(&self, name: &str) -> bool {
        self.pod(name).is_ok_and(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
        })
    }

    fn wait_told_to_go(&self, name: &str) {
        wait::until(&format!("{name} to be told to go"), || {
            if self.is_left(name) {
                Err(name.to_owned())
            } else {
                Ok(())
            }
        });
    }

    fn wait_unschedulable(&self, name: &str) {
        SHARED.wait_pod(&self.name, name, "the scheduler refuses it", |pod| {
            let conditions = pod["status"]["conditions"].to_string();
            conditions.contains("Unschedulable")
        });
    }

    /// The error that the tenant gets.
    fn refused(&self, args: &[&str]) -> String {
        let error = self.kubectl(&[args, &[AS_TENANT]].concat()).unwrap_err();
        format!("{error:#}")
    }

    /// Sends no resource version: a status that the kubelet writes meanwhile must not be the reason for the refusal.
    fn refused_object(&self, how: &str, object: &Value) -> String {
        let mut object = object.clone();
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        let file = SHARED.world.directory().join("refused.json");
        std::fs::write(&file, object.to_string()).unwrap();
        self.refused(&[how, "--filename", file.to_str().unwrap()])
    }

    /// Gives the tenant more rights than an editor has, so that only the policies can refuse a request.
    fn grant(&self, resource: &str, verb: &str) {
        let name = format!("{verb}-{}", resource.replace('/', "-"));
        let (verb, resource) = (format!("--verb={verb}"), format!("--resource={resource}"));
        self.kubectl(&["create", "role", &name, &verb, &resource])
            .unwrap();
        let role = format!("--role={name}");
        self.kubectl(&["create", "rolebinding", &name, &role, "--user=tenant"])
            .unwrap();
    }

    /// Frees the cards for the next test. A timekeeper must run.
    fn leave(&self) {
        let delete = ["delete", "deployments,pods", "--all", "--wait=false"];
        self.kubectl(&delete).unwrap();
        wait::until("the pods to be gone", || {
            let pods = self.object(&["get", "pods"])?;
            ensure!(pods["items"] == json!([]), "{}", pods["items"]);
            Ok(())
        });
    }
}
