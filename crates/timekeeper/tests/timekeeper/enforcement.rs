//! Budgets enforced on the pods of an API server: restarts, conflicts, disruption budgets, another leader's turn.

use gpushare_apiserver::{Answer, Gate, On, Times, Verb};
use gpushare_core::names;
use gpushare_daemon::Tasks;
use gpushare_kube::leader::Leadership;
use gpushare_testkit::cluster::{self, Objects};
use gpushare_timekeeper::Timekeeper;
use gpushare_timekeeper::config::Pace;
use gpushare_timekeeper::enforce::Enforcer;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::world::{DAY, World, until};

/// The namespace `a` with a budget of that name, whose status the test writes.
struct Scene {
    world: World,
    tasks: Tasks,
}

impl Scene {
    async fn new(spec: Value) -> Self {
        let world = World::new().await;
        world.paying("a", 72_000, spec).await;
        Self {
            world,
            tasks: Tasks::new(),
        }
    }

    /// Pods are evicted so many seconds after their budget is used up.
    async fn evicting_after(seconds: i64) -> Self {
        Self::new(json!({"whenExhausted": "EvictWithGrace", "graceSeconds": seconds})).await
    }

    /// As above, with the pod `one`.
    async fn evicting_one(seconds: i64) -> Self {
        let scene = Self::evicting_after(seconds).await;
        scene.runs("one").await;
        scene
    }

    /// The budget is used up when a timekeeper starts to enforce it.
    async fn begins_exhausted(&self) {
        self.exhaust(true).await;
        self.enforces(Leadership::alone());
    }

    /// A timekeeper that enforces, and does nothing else.
    fn enforces(&self, leadership: Leadership) {
        let ledger = self.world.ledger();
        let parts = self.world.parts(ledger, leadership, Pace::default());
        // Like the client of the program: a refused request is visible, not retried behind its back.
        let mut config = self.world.server.config();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let timekeeper = Timekeeper::new(parts, client);
        timekeeper.follow(&self.tasks);
        Enforcer::new(timekeeper).start(&self.tasks);
    }

    /// Replaces this process by another one.
    fn restarts(&mut self) {
        self.tasks.shutdown().cancel();
        self.tasks = Tasks::new();
        self.enforces(Leadership::alone());
    }

    fn pods(&self) -> Api<Pod> {
        self.world.pods("a")
    }

    async fn exhaust(&self, exhausted: bool) {
        let status = json!({"exhausted": exhausted});
        self.world.budgets().merge_status("a", status).await;
    }

    async fn create(&self, name: &str, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "none",
                "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.pods().add(pod).await;
    }

    async fn runs(&self, name: &str) {
        self.create(name, json!({"nodeName": "n"})).await;
        cluster::runs(&self.pods(), name).await;
    }

    async fn until_over_budget(&self, pod: &str, over: bool) {
        let mark = names::OVER_BUDGET_MARK;
        self.world.until_marked(pod, mark, over).await;
    }

    /// Waits until the pod says when it will be evicted, or no longer says so.
    async fn until_told(&self, pod: &str, told: bool) {
        self.world.until_marked(pod, names::EVICT_AT, told).await;
    }

    async fn until_event(&self, pod: &str, reason: &str) -> Event {
        until(&format!("{pod} has the event {reason}"), async || {
            cluster::event(&self.world.client, "a", pod, reason).await
        })
        .await
    }

    async fn protect(&self, app: &str, allowed: i32) {
        cluster::allow_disruptions(&self.world.client, "a", app, allowed).await;
    }

    async fn annotate(&self, pod: &str, annotations: Value) {
        self.pods().annotate(pod, annotations).await;
    }

    /// There is budget again while the eviction is under way, and another leader removes the marks before it arrives.
    async fn recovers_before(&self, pod: &str, underway: Gate) {
        self.exhaust(false).await;
        let none = json!({names::OVER_BUDGET_MARK: null, names::EVICT_AT: null});
        self.annotate(pod, none).await;
        let answered = self.world.server.faults().hold_after(evictions());
        underway.release();
        answered.reached(1).await;
        assert!(!self.world.is_ending(pod).await, "it is within its budget");
    }
}

fn evictions() -> On {
    On::any().verb(Verb::Create).resource("pods/eviction")
}

#[tokio::test]
async fn a_pod_is_marked_while_its_budget_is_used_up_and_its_owner_is_told() {
    let scene = Scene::new(json!({})).await;
    scene.runs("one").await;
    scene.create("pending", json!({})).await;
    let mut plain = json!({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    plain["metadata"]["namespace"] = json!("a");
    scene.pods().add(plain).await;
    scene.begins_exhausted().await;
    for pod in ["one", "pending"] {
        scene.until_over_budget(pod, true).await;
        let event = scene.until_event(pod, "OverBudget").await;
        let component = event.source.unwrap().component;
        assert_eq!(component.as_deref(), Some("gpushare-timekeeper"));
    }
    scene.exhaust(false).await;
    for pod in ["one", "pending"] {
        scene.until_over_budget(pod, false).await;
        scene.until_event(pod, "BackInBudget").await;
    }
    let mark = scene.world.annotation("plain", names::OVER_BUDGET_MARK);
    assert_eq!(mark.await, None);
}

#[tokio::test]
async fn a_conflict_or_a_lost_answer_is_made_up_for_and_nothing_is_written_twice() {
    let scene = Scene::new(json!({})).await;
    scene.runs("one").await;
    let patches = || On::any().verb(Verb::Patch).resource("pods");
    let faults = scene.world.server.faults();
    let refused = faults.answer(patches(), Times::Next(1), Answer::Conflict);
    scene.enforces(Leadership::alone());
    scene.exhaust(true).await;
    scene.until_over_budget("one", true).await;
    assert_eq!(refused.hits(), 1);
    // The write succeeds, but its answer is lost.
    faults.cut_after(patches(), Times::Next(1));
    scene.exhaust(false).await;
    scene.until_over_budget("one", false).await;
    scene.exhaust(true).await;
    scene.until_over_budget("one", true).await;
    scene.until_event("one", "OverBudget").await;
    let before = scene.world.server.requests().count(Verb::Patch, "pods");
    // A change to another pod is no reason to write to this one.
    scene.create("other", json!({})).await;
    scene.until_over_budget("other", true).await;
    let after = scene.world.server.requests().count(Verb::Patch, "pods");
    assert_eq!(after, before + 1);
}

#[tokio::test]
async fn the_gate_opens_when_there_is_budget_again_and_others_gates_stay() {
    let scene = Scene::new(json!({"whenExhausted": "ThrottleNew"})).await;
    let gates = json!([{"name": names::BUDGET_GATE}, {"name": "example.com/other"}]);
    scene
        .create("waits", json!({"schedulingGates": gates}))
        .await;
    scene.begins_exhausted().await;
    // Something else happens first, which shows that the gate was looked at.
    scene.runs("one").await;
    scene.until_over_budget("one", true).await;
    let gates = async || {
        let pod = scene.world.pod("waits").await;
        let gates = pod.spec.unwrap().scheduling_gates.unwrap_or_default();
        gates.into_iter().map(|gate| gate.name).collect::<Vec<_>>()
    };
    assert_eq!(gates().await.len(), 2);
    scene.exhaust(false).await;
    until("the gate is open", async || {
        gates().await == ["example.com/other"]
    })
    .await;
    scene.until_event("waits", "BackInBudget").await;
}

#[tokio::test]
async fn a_pod_goes_when_its_grace_is_over_also_after_a_restart_and_not_before() {
    let mut scene = Scene::evicting_one(600).await;
    scene.begins_exhausted().await;
    scene.until_told("one", true).await;
    let told = scene.world.annotation("one", names::EVICT_AT).await;
    scene.world.at(599);
    scene.restarts();
    scene.runs("later").await;
    scene.until_told("later", true).await;
    assert_eq!(scene.world.annotation("one", names::EVICT_AT).await, told);
    assert!(!scene.world.is_ending("one").await);
    scene.world.at(600);
    scene.world.until_evicted("one").await;
    scene.until_event("one", "BudgetEviction").await;
    assert!(
        !scene.world.is_ending("later").await,
        "its grace has only begun"
    );
}

#[tokio::test]
async fn a_disruption_budget_is_asked_again_until_it_lets_the_pod_go_and_budget_calls_it_off() {
    let scene = Scene::evicting_after(0).await;
    scene.runs("kept").await;
    scene.runs("saved").await;
    for app in ["kept", "saved"] {
        scene.protect(app, 0).await;
    }
    scene.begins_exhausted().await;
    for pod in ["kept", "saved"] {
        scene.until_event(pod, "BudgetEvictionBlocked").await;
        assert!(!scene.world.is_ending(pod).await);
    }
    scene.protect("kept", 1).await;
    scene.world.until_evicted("kept").await;
    scene.exhaust(false).await;
    scene.until_told("saved", false).await;
    scene.protect("saved", 1).await;
    assert!(!scene.world.is_ending("saved").await);
}

#[tokio::test]
async fn an_eviction_that_arrives_late_is_void_also_after_the_api_server_has_failed_often() {
    let scene = Scene::evicting_one(0).await;
    let faults = scene.world.server.faults();
    let failed = faults.answer(evictions(), Times::Next(3), Answer::InternalError);
    let underway = faults.hold_before(evictions());
    scene.begins_exhausted().await;
    underway.reached(1).await;
    assert_eq!(failed.hits(), 3);
    scene.recovers_before("one", underway).await;
}

#[tokio::test]
async fn an_eviction_that_arrives_late_is_void_also_after_a_disruption_budget_has_refused_often() {
    let scene = Scene::evicting_one(0).await;
    scene.protect("one", 0).await;
    scene.begins_exhausted().await;
    let requests = scene.world.server.requests();
    until("it was refused three times", async || {
        requests.count(Verb::Create, "pods/eviction") >= 3
    })
    .await;
    let underway = scene.world.server.faults().hold_before(evictions());
    underway.reached(1).await;
    scene.protect("one", 1).await;
    scene.recovers_before("one", underway).await;
}

#[tokio::test]
async fn a_pod_that_changes_before_each_eviction_arrives_is_evicted_all_the_same() {
    let scene = Scene::evicting_one(0).await;
    let faults = scene.world.server.faults();
    let mut underway = faults.hold_before(evictions());
    scene.begins_exhausted().await;
    for change in 1..=4 {
        underway.reached(1).await;
        assert!(!scene.world.is_ending("one").await);
        let changed = json!({"example.com/change": change.to_string()});
        scene.annotate("one", changed).await;
        // The next eviction is held too.
        let next = faults.hold_before(evictions());
        underway.release();
        underway = next;
    }
    scene.world.until_evicted("one").await;
}

#[tokio::test]
async fn whoever_does_not_lead_does_nothing() {
    let mut scene = Scene::new(json!({})).await;
    scene.runs("one").await;
    scene.exhaust(true).await;
    scene.enforces(Leadership::following());
    let listed = || scene.world.server.requests().count(Verb::Watch, "pods") > 0;
    until("it follows the pods", async || listed()).await;
    let patches = || On::any().verb(Verb::Patch).resource("pods");
    let faults = scene.world.server.faults();
    let acts = faults.answer(patches(), Times::Always, Answer::InternalError);
    scene.exhaust(false).await;
    scene.exhaust(true).await;
    assert_eq!(acts.hits(), 0);
    acts.clear();
    scene.restarts();
    scene.until_over_budget("one", true).await;
}

#[tokio::test]
async fn many_pods_are_all_marked_each_once() {
    let scene = Scene::new(json!({})).await;
    for number in 0..150 {
        scene.create(&format!("pod-{number}"), json!({})).await;
    }
    scene.begins_exhausted().await;
    until("all are marked", async || {
        let pods = scene.pods().list(&ListParams::default()).await.unwrap();
        pods.items.iter().all(|pod| {
            let annotations = pod.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(names::OVER_BUDGET_MARK))
        })
    })
    .await;
    let patches = scene.world.server.requests().count(Verb::Patch, "pods");
    assert_eq!(patches, 150);
}

#[tokio::test]
async fn what_a_pod_holds_uses_its_budget_up_and_demotes_it_until_the_next_period() {
    let world = World::with_a_pod(1_000).await;
    let running = world.start_at(900);
    running.enforces();
    world.until_used("a", 900, 0).await;
    let marked = async || world.annotation("p", names::OVER_BUDGET_MARK).await;
    assert_eq!(marked().await, None);
    world.at(1_001);
    until("the pod is demoted", async || {
        marked().await.as_deref() == Some("a")
    })
    .await;
    world.at(DAY + 1);
    until("the pod is restored", async || marked().await.is_none()).await;
    running.stop().await;
}
