//! What happens to pods when their budget is used up and when there is something again: on the real scheduler, through
//! the real Eviction API, past everything that tenants may try.

use anyhow::{Result, ensure};
use e2e::calendar::day;
use e2e::manifest::{aliyun, annotated, pod};
use e2e::wait;
use e2e::world::NODE;
use serde_json::{Value, json};

use crate::{DAY, SHARED};

const OVER: &str = "gpushare.io/over-budget";
const RESTORED: &str = "gpushare.io/back-in-budget";
const EVICT_AT: &str = "gpushare.io/evict-at";
const AS_TENANT: &str = "--as=tenant";
const ALONE: &str = "written by the gpushare timekeeper alone";
const ASKED: &str = "gpushare_extender_requests_total{verb=\"preempt\",code=\"200\"}";

/// A namespace with a budget, in which `tenant` may do what editors may. Its pods go at the end.
struct Team {
    name: String,
}

impl Team {
    /// With enough for everybody.
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

    /// Makes the budget so small that it is used up, or large again.
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

    /// Runs, and was not told to go.
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

    /// What the tenant is told.
    fn refused(&self, args: &[&str]) -> String {
        let error = self.kubectl(&[args, &[AS_TENANT]].concat()).unwrap_err();
        format!("{error:#}")
    }

    fn refused_object(&self, how: &str, object: &Value) -> String {
        let file = SHARED.world.directory().join("refused.json");
        std::fs::write(&file, object.to_string()).unwrap();
        self.refused(&[how, "--filename", file.to_str().unwrap()])
    }

    /// More than editors may, so that what is refused is refused by the policies.
    fn grant(&self, resource: &str, verb: &str) {
        let name = format!("{verb}-{}", resource.replace('/', "-"));
        let (verb, resource) = (format!("--verb={verb}"), format!("--resource={resource}"));
        self.kubectl(&["create", "role", &name, &verb, &resource])
            .unwrap();
        let role = format!("--role={name}");
        self.kubectl(&["create", "rolebinding", &name, &role, "--user=tenant"])
            .unwrap();
    }

    /// Leaves the cards to the next test; a timekeeper must run.
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

#[test]
fn a_pod_whose_budget_ends_is_demoted_and_goes_for_one_of_the_same_priority_from_a_full_card() {
    let _timekeeper = SHARED.timekeeper();
    let (spent, paid) = (Team::new("Demote", None), Team::new("Demote", None));
    paid.runs(&pod("other-card", aliyun(8)));
    spent.runs(&pod("runs", aliyun(8)));
    let before = spent.pod("runs").unwrap()["spec"]["priority"].clone();
    // Within its budget it stays, whoever of its priority comes.
    paid.creates(&pod("pays", aliyun(8)));
    paid.wait_unschedulable("pays");
    assert!(spent.is_left("runs"));
    spent.exhaust(true);
    assert_eq!(
        spent.wait_mark("runs", OVER, true),
        Some(spent.name.clone())
    );
    let said = spent.wait_event("runs", "is used up");
    assert!(said.contains("the first to go"), "{said}");
    let pays = SHARED.wait_running(&paid.name, "pays");
    assert!(!spent.is_left("runs"));
    spent.wait_event("runs", "preempted by pod");
    assert_eq!(pays["spec"]["priority"], before);
    spent.leave();
    paid.leave();
}

#[test]
fn coming_back_into_budget_restores_pods_also_those_that_were_created_over_it() {
    let _timekeeper = SHARED.timekeeper();
    let (team, paid) = (Team::new("Demote", None), Team::new("Demote", None));
    paid.runs(&pod("other-card", aliyun(8)));
    team.runs(&pod("ordinary", aliyun(4)));
    team.exhaust(true);
    SHARED.wait_for_class(&team.name, "gpushare-over-budget");
    team.runs(&pod("low", aliyun(4)));
    for pod in ["low", "ordinary"] {
        team.wait_mark(pod, OVER, true);
    }
    team.exhaust(false);
    for pod in ["low", "ordinary"] {
        team.wait_mark(pod, OVER, false);
        team.wait_event(pod, "has something left again");
    }
    team.wait_mark("low", RESTORED, true);
    assert_eq!(team.annotation("ordinary", RESTORED).unwrap(), None);
    // kube-scheduler would evict the one of low priority; it asks, and is told that nobody goes.
    let asked = SHARED.world.metric(ASKED);
    paid.creates(&pod("pays", aliyun(4)));
    wait::until("the scheduler to ask whom to evict", || {
        if SHARED.world.metric(ASKED) > asked {
            Ok(())
        } else {
            Err(asked)
        }
    });
    assert!(team.is_left("low") && team.is_left("ordinary"));
    team.exhaust(true);
    SHARED.wait_running(&paid.name, "pays");
    team.leave();
    paid.leave();
}

#[test]
fn the_gate_of_pods_that_wait_for_budget_opens_with_the_next_period() {
    let mut timekeeper = SHARED.timekeeper();
    let spec = json!({"amount": 1, "period": day(), "whenExhausted": "ThrottleNew"});
    let team = Team::with(spec);
    team.runs(&pod("runs", aliyun(8)));
    SHARED.wait_budget(&team.name, "it is used up", |status| {
        status["exhausted"] == true
    });
    team.wait_mark("runs", OVER, true);
    SHARED.delete(&team.name, "runs");
    SHARED.wait_gone(&team.name, "runs");
    let gated = || -> Value {
        // The webhook may hear of it a moment later.
        wait::until("a pod that waits", || -> Result<Value> {
            let mut waits = pod("waits", aliyun(2));
            waits["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
            team.creates(&waits);
            let stored = team.pod("waits")?;
            let gates = stored["spec"]["schedulingGates"].clone();
            if gates.to_string().contains("gpushare.io/budget") {
                return Ok(gates);
            }
            SHARED.delete(&team.name, "waits");
            SHARED.wait_gone(&team.name, "waits");
            anyhow::bail!("{gates}")
        })
    };
    assert_eq!(gated().as_array().unwrap().len(), 2);
    // One that has just started knows as much.
    timekeeper.kill();
    timekeeper.start();
    timekeeper.ahead(DAY);
    team.wait_event("waits", "this pod is scheduled now");
    let stored = team.pod("waits").unwrap();
    // Another's gate is another's business.
    assert_eq!(
        stored["spec"]["schedulingGates"],
        json!([{"name": "example.com/other"}])
    );
    let open = json!({"spec": {"schedulingGates": null}}).to_string();
    team.kubectl(&["patch", "pod", "waits", "--type=merge", "-p", &open])
        .unwrap();
    let stored = SHARED.wait_running(&team.name, "waits");
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-in-budget");
    team.leave();
}

#[test]
fn with_a_grace_a_pod_is_told_when_it_goes_and_goes_then_unless_there_is_budget_again() {
    let mut timekeeper = SHARED.timekeeper();
    let team = Team::new("EvictWithGrace", Some(3600));
    team.runs(&pod("runs", aliyun(4)));
    team.exhaust(true);
    let first = team.wait_mark("runs", EVICT_AT, true).unwrap();
    let said = team.wait_event("runs", "will be evicted at");
    assert!(said.contains(&first), "{said}");
    // In time there is budget again.
    timekeeper.ahead(3000);
    team.exhaust(false);
    team.wait_mark("runs", EVICT_AT, false);
    timekeeper.ahead(3700);
    team.exhaust(true);
    let second = team.wait_mark("runs", EVICT_AT, true).unwrap();
    assert!(second > first, "{second}");
    assert!(team.is_left("runs"));
    // Not long before the end, also by one that has just started; another pod shows that it has looked.
    timekeeper.kill();
    timekeeper.ahead(3700 + 3000);
    timekeeper.start();
    team.runs(&pod("later", aliyun(1)));
    team.wait_mark("later", EVICT_AT, true);
    assert_eq!(team.annotation("runs", EVICT_AT).unwrap(), Some(second));
    assert!(team.is_left("runs"));
    timekeeper.ahead(3700 + 3700);
    team.wait_event("runs", "its grace is over");
    team.wait_told_to_go("runs");
    assert!(team.is_left("later"), "its grace has only begun");
    team.leave();
}

#[test]
fn a_disruption_budget_keeps_a_pod_past_its_grace_until_it_lets_it_go() {
    let _timekeeper = SHARED.timekeeper();
    let team = Team::new("EvictWithGrace", Some(0));
    let mut kept = pod("kept", aliyun(4));
    kept["metadata"]["labels"]["app"] = json!("kept");
    team.runs(&kept);
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    });
    budget["metadata"]["namespace"] = json!(team.name);
    SHARED.world.apply(&budget);
    wait::until("the budget to be counted", || {
        let budget = team.object(&["get", "poddisruptionbudget", "kept"])?;
        ensure!(
            budget["status"]["currentHealthy"] == 1,
            "{}",
            budget["status"]
        );
        Ok(())
    });
    team.exhaust(true);
    team.wait_event("kept", "a disruption budget keeps this pod");
    assert!(team.is_left("kept"));
    team.kubectl(&["delete", "poddisruptionbudget", "kept"])
        .unwrap();
    team.wait_told_to_go("kept");
    team.leave();
}

#[test]
fn a_tenant_can_neither_set_nor_change_nor_remove_what_enforces_budgets() {
    let _timekeeper = SHARED.timekeeper();
    let team = Team::new("EvictWithGrace", Some(3600));
    team.runs(&pod("mine", aliyun(4)));
    let refused = |args: &[&str]| {
        let said = team.refused(args);
        assert!(said.contains(ALONE), "{args:?}: {said}");
    };
    for name in [OVER, RESTORED, EVICT_AT] {
        refused(&[
            "annotate",
            "pod",
            "mine",
            &format!("{name}=2020-01-01T00:00:00Z"),
        ]);
    }
    team.exhaust(true);
    team.wait_mark("mine", EVICT_AT, true);
    for (name, change) in [(OVER, "other"), (EVICT_AT, "2099-01-01T00:00:00Z")] {
        let set = format!("{name}={change}");
        refused(&["annotate", "pod", "mine", "--overwrite", &set]);
        refused(&["annotate", "pod", "mine", &format!("{name}-")]);
    }
    // By the pod's status, and by the pod as a whole.
    team.grant("pods/status", "patch");
    let unmark = json!({"metadata": {"annotations": {OVER: null}}}).to_string();
    let status = [
        "patch",
        "pod",
        "mine",
        "--subresource=status",
        "--type=merge",
        "-p",
        &unmark,
    ];
    refused(&status);
    let mut whole = team.pod("mine").unwrap();
    whole["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(EVICT_AT);
    let said = team.refused_object("replace", &whole);
    assert!(said.contains(ALONE), "{said}");
    // At creation, also by a controller for a template.
    for name in [OVER, RESTORED, EVICT_AT] {
        let born = annotated(pod("born", aliyun(1)), name, "2020-01-01T00:00:00Z");
        let said = team.refused_object("create", &born);
        assert!(said.contains(ALONE), "{said}");
    }
    let mut sly = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sly"},
        "spec": {"selector": {"matchLabels": {"app": "sly"}}, "template": {
            "metadata": {"labels": {"app": "sly"}, "annotations": {RESTORED: "true"}},
            "spec": pod("", aliyun(1))["spec"],
        }},
    });
    sly["metadata"]["namespace"] = json!(team.name);
    SHARED.world.apply(&sly);
    wait::until("the controller to be refused", || {
        let sets = team.object(&["get", "replicasets"])?;
        let conditions = sets["items"][0]["status"]["conditions"].to_string();
        ensure!(conditions.contains(ALONE), "{conditions}");
        Ok(())
    });
    assert!(team.is_left("mine"));
    team.leave();
}

#[test]
fn a_tenant_can_neither_pass_the_gate_nor_buy_rank_nor_hold_cards_beside_the_meter() {
    let _timekeeper = SHARED.timekeeper();
    let team = Team::new("ThrottleNew", None);
    team.runs(&pod("runs", aliyun(1)));
    team.exhaust(true);
    team.wait_mark("runs", OVER, true);
    let waits = wait::until("a pod that waits", || -> Result<Value> {
        team.creates(&pod("waits", aliyun(1)));
        let stored = team.pod("waits")?;
        if stored["spec"]["schedulingGates"].is_array() {
            return Ok(stored);
        }
        SHARED.delete(&team.name, "waits");
        SHARED.wait_gone(&team.name, "waits");
        anyhow::bail!("the webhook has not heard yet")
    });
    let gate = "taken off by the gpushare timekeeper";
    let open = json!({"spec": {"schedulingGates": null}}).to_string();
    let said = team.refused(&["patch", "pod", "waits", "--type=merge", "-p", &open]);
    assert!(said.contains(gate), "{said}");
    let mut whole = waits.clone();
    whole["spec"]
        .as_object_mut()
        .unwrap()
        .remove("schedulingGates");
    let said = team.refused_object("replace", &whole);
    assert!(said.contains(gate), "{said}");
    // A pod cannot be put on a node past its gate.
    team.grant("pods/binding", "create");
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "waits", "namespace": team.name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let file = SHARED.world.directory().join("binding.json");
    std::fs::write(&file, binding.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/waits/binding", team.name);
    let post = [
        "create",
        "--raw",
        &path,
        "--filename",
        file.to_str().unwrap(),
    ];
    let said = team.refused(&post);
    assert!(said.contains("schedulingGates"), "{said}");
    // The rank of a pod that exists cannot be changed by anybody.
    for change in [
        json!({"spec": {"priority": 1000}}),
        json!({"spec": {"priorityClassName": "system-node-critical"}}),
        json!({"spec": {"preemptionPolicy": "Never"}}),
    ] {
        let change = change.to_string();
        let said = team.refused(&["patch", "pod", "runs", "--type=merge", "-p", &change]);
        assert!(said.contains("pod updates may not change fields"), "{said}");
    }
    // A look at a running pod brings no devices with it, and a restart does not end the metering.
    team.grant("pods/ephemeralcontainers", "patch");
    let look = json!({"spec": {"ephemeralContainers": [{
        "name": "look", "image": "gpushare.test/busybox:1",
        "resources": {"limits": {"aliyun.com/gpu-mem": 1}},
    }]}})
    .to_string();
    let debug = [
        "patch",
        "pod",
        "runs",
        "--subresource=ephemeralcontainers",
        "-p",
        &look,
    ];
    let said = team.refused(&debug);
    assert!(said.contains("resources"), "{said}");
    let stored = team.pod("runs").unwrap();
    assert_eq!(
        stored["metadata"]["finalizers"],
        json!(["gpushare.io/metering"])
    );
    team.leave();
}

#[test]
fn the_timekeeper_itself_may_change_nothing_else_of_a_pod() {
    let _timekeeper = SHARED.timekeeper();
    let team = Team::new("Demote", None);
    team.runs(&pod("runs", aliyun(4)));
    let account = "--as=system:serviceaccount:gpushare-system:gpushare-timekeeper";
    for change in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"other": "x"}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "gpushare.test/other:1"}]}}),
        json!({"spec": {"activeDeadlineSeconds": 1}}),
        json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]),
    ] {
        let (patch, list) = (change.to_string(), change.is_array());
        let kind = if list {
            "--type=json"
        } else {
            "--type=strategic"
        };
        let patched = team.kubectl(&["patch", "pod", "runs", kind, "-p", &patch, account]);
        let said = format!("{:#}", patched.unwrap_err());
        assert!(
            said.contains("may change nothing of a pod"),
            "{change}: {said}"
        );
    }
    team.leave();
}
