//! Several extenders of one cluster, each with its own connection to the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::http::{Method, Request, Response, StatusCode};
use gpushare_apiserver::{On, Verb};
use gpushare_core::lease::Timing;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::Config;
use gpushare_kube::leader::election::Election;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::{config, node};

pub(crate) const LEASE: &str = "extender";
const NAMESPACE: &str = "kube-system";

/// For replicas of which another one takes over: short, so that the test need not wait for long, and long
/// enough for a leader to renew its lease on a busy machine.
pub(crate) const TIMING: Timing = Timing {
    duration: 8_000,
    renew_deadline: 5_000,
    retry: 400,
};

/// For replicas that must never lose the lease because time passes.
pub(crate) const PATIENT: Timing = Timing {
    duration: 3_600_000,
    renew_deadline: 1_800_000,
    retry: 400,
};

pub(crate) fn leases(verb: Verb) -> On {
    On::any().verb(verb).resource("leases.coordination.k8s.io")
}

/// A client that can be cut off from its server.
#[derive(Clone, Default)]
pub(crate) struct Line(Arc<Wires>);

#[derive(Default)]
struct Wires {
    cut: AtomicBool,
    leases_cut: AtomicBool,
    patches: AtomicUsize,
    /// Which requests to delay from now on.
    lingering: parking_lot::Mutex<Option<Lingering>>,
}

/// What the sender of a delayed request gets as an answer.
#[derive(Clone, Copy)]
enum Heard {
    Nothing,
    /// The connection broke.
    Broken,
    /// 409, as Kubernetes answers a bind if its database did not answer in time.
    Conflict,
}

impl Heard {
    async fn answer(self) -> std::io::Result<Response<Body>> {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Broken => Err(std::io::Error::other("the connection broke")),
            Self::Conflict => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "Operation cannot be fulfilled on pods/binding: context deadline exceeded",
                    "reason": "Conflict", "code": 409,
                });
                let answer = Response::builder().status(StatusCode::CONFLICT);
                let body = Body::from(status.to_string().into_bytes());
                answer.body(body).map_err(std::io::Error::other)
            }
        }
    }
}

/// Requests that the network delays, although their senders have given up.
#[derive(Clone)]
pub(crate) struct Lingering {
    /// How their path ends.
    ending: &'static str,
    heard: Heard,
    delivered: watch::Sender<bool>,
    kept: watch::Sender<usize>,
    answers: watch::Sender<Vec<StatusCode>>,
}

impl Lingering {
    /// Lets them arrive, and returns the API server's answers to them.
    pub(crate) async fn deliver(&self) -> Vec<StatusCode> {
        self.delivered.send_replace(true);
        let kept = *self.kept.borrow();
        let mut answers = self.answers.subscribe();
        let all = answers.wait_for(|answers| answers.len() >= kept).await;
        all.unwrap().clone()
    }

    /// Waits until this many requests are kept.
    pub(crate) async fn kept(&self, count: usize) {
        let mut kept = self.kept.subscribe();
        kept.wait_for(|kept| *kept >= count).await.unwrap();
    }

    /// The request goes on without its sender, which never learns what becomes of it.
    async fn keep(self, client: Client, request: Request<Body>) -> std::io::Result<Response<Body>> {
        let heard = self.heard;
        self.kept.send_modify(|kept| *kept += 1);
        tokio::spawn(async move {
            let mut delivered = self.delivered.subscribe();
            delivered.wait_for(|delivered| *delivered).await.unwrap();
            let answer = client.send(request).await.unwrap().status();
            self.answers.send_modify(|answers| answers.push(answer));
        });
        heard.answer().await
    }
}

impl Line {
    fn through(&self, client: Client) -> Client {
        let line = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (line, client) = (line.clone(), client.clone());
            async move {
                line.check(&request)?;
                if let Some(lingering) = line.lingering(&request) {
                    return lingering.keep(client, request).await;
                }
                client.send(request).await.map_err(std::io::Error::other)
            }
        });
        Client::new(send, "default")
    }

    fn check(&self, request: &Request<Body>) -> std::io::Result<()> {
        let Self(wires) = self;
        let of_lease = request.uri().path().contains("/leases");
        let leases_cut = of_lease && wires.leases_cut.load(Ordering::SeqCst);
        if leases_cut || wires.cut.load(Ordering::SeqCst) {
            return Err(std::io::Error::other("the line is cut"));
        }
        let of_status = request.uri().path().ends_with("/status");
        if request.method() == Method::PATCH && !of_status {
            wires.patches.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Delays each request whose path ends like this until [`Lingering::deliver`], whatever its sender does.
    pub(crate) fn keep(&self, ending: &'static str) -> Lingering {
        self.keep_each(ending, Heard::Nothing)
    }

    /// Like [`Self::keep`], but the sender learns at once that its connection broke.
    pub(crate) fn lose(&self, ending: &'static str) -> Lingering {
        self.keep_each(ending, Heard::Broken)
    }

    /// Like [`Self::keep`], but the sender is answered at once with a conflict.
    pub(crate) fn refuse(&self, ending: &'static str) -> Lingering {
        self.keep_each(ending, Heard::Conflict)
    }

    fn keep_each(&self, ending: &'static str, heard: Heard) -> Lingering {
        let lingering = Lingering {
            ending,
            heard,
            delivered: watch::Sender::new(false),
            kept: watch::Sender::new(0),
            answers: watch::Sender::default(),
        };
        *self.0.lingering.lock() = Some(lingering.clone());
        lingering
    }

    /// Delays no further requests; those that are already kept stay so.
    pub(crate) fn keep_no_more(&self) {
        *self.0.lingering.lock() = None;
    }

    fn lingering(&self, request: &Request<Body>) -> Option<Lingering> {
        let lingering = self.0.lingering.lock().clone();
        lingering.filter(|one| request.uri().path().ends_with(one.ending))
    }

    /// Requests fail from now on; those under way go on.
    pub(crate) fn cut(&self) {
        self.0.cut.store(true, Ordering::SeqCst);
    }

    /// Only requests for leases fail from now on.
    pub(crate) fn cut_leases(&self) {
        self.0.leases_cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.0.cut.store(false, Ordering::SeqCst);
    }

    /// How many patches went through, not counting those of a status.
    pub(crate) fn patches(&self) -> usize {
        self.0.patches.load(Ordering::SeqCst)
    }
}

pub(crate) struct Replica {
    extender: Extender,
    pub(crate) tasks: Tasks,
    pub(crate) line: Line,
}

impl Asked for Replica {
    fn extender(&self) -> &Extender {
        &self.extender
    }
}

impl Replica {
    /// An extender that takes part in the election of the cluster's leader.
    pub(crate) fn start(cluster: &Following, identity: &str, timing: Timing) -> Self {
        let election = Election {
            namespace: NAMESPACE.to_owned(),
            name: LEASE.to_owned(),
            identity: identity.to_owned(),
            timing,
        };
        Self::start_with(cluster, Some(election))
    }

    /// An extender without election, beside which none may run.
    pub(crate) fn alone(cluster: &Following) -> Self {
        Self::start_with(cluster, None)
    }

    fn start_with(cluster: &Following, election: Option<Election>) -> Self {
        let (tasks, line) = (Tasks::new(), Line::default());
        let config = Config {
            election,
            ..config()
        };
        let client = line.through(cluster.client.clone());
        let extender = Extender::new(config, client, tasks.clone());
        extender.follow(&tasks);
        Self {
            extender,
            tasks,
            line,
        }
    }

    /// A replica that leads at once, because no other one holds the lease, and for as long as the test runs.
    pub(crate) async fn leader(cluster: &Following, identity: &str) -> Self {
        Self::leader_with(cluster, identity, PATIENT).await
    }

    /// Like [`Self::leader`], but soon replaced when it cannot reach the lease any more.
    pub(crate) async fn deposable(cluster: &Following, identity: &str) -> Self {
        Self::leader_with(cluster, identity, TIMING).await
    }

    async fn leader_with(cluster: &Following, identity: &str, timing: Timing) -> Self {
        give_back(cluster).await;
        let replica = Self::start(cluster, identity, timing);
        replica.until_ready().await;
        replica
    }

    pub(crate) async fn until_not_ready(&self) {
        until("the replica is not ready", async || !self.is_ready().await).await;
    }
}

/// A node with these cards, and the leader of its cluster.
pub(crate) async fn led(cards: &[u64]) -> (Following, Replica) {
    let cluster = Following::prepare(&[node("n1", cards)]).await;
    let leader = Replica::leader(&cluster, "a").await;
    (cluster, leader)
}

/// A node with these cards, a leader that may be deposed, and its successor.
pub(crate) async fn contested(cards: &[u64]) -> (Following, Replica, Replica) {
    let cluster = Following::prepare(&[node("n1", cards)]).await;
    let leader = Replica::deposable(&cluster, "a").await;
    let successor = Replica::start(&cluster, "b", TIMING);
    (cluster, leader, successor)
}

pub(crate) fn lease_api(cluster: &Following) -> Api<Lease> {
    Api::namespaced(cluster.client.clone(), NAMESPACE)
}

pub(crate) async fn lease(cluster: &Following) -> Lease {
    lease_api(cluster).get(LEASE).await.unwrap()
}

pub(crate) async fn holder(cluster: &Following) -> Option<String> {
    lease(cluster).await.spec.unwrap().holder_identity
}

/// Writes the lease as a leader leaves it after a clean shutdown.
pub(crate) async fn give_back(cluster: &Following) {
    let given_back = json!({"leaseDurationSeconds": 1, "leaseTransitions": 1});
    hold(cluster, given_back).await;
}

/// Writes the lease as another replica would, creating it if need be.
pub(crate) async fn hold(cluster: &Following, spec: Value) {
    let api = lease_api(cluster);
    let mut lease = json!({"metadata": {"name": LEASE}, "spec": spec});
    let Some(known) = api.get_opt(LEASE).await.unwrap() else {
        api.add(lease).await;
        return;
    };
    lease["metadata"]["resourceVersion"] = json!(known.metadata.resource_version);
    let lease = serde_json::from_value(lease).unwrap();
    let replaced = api.replace(LEASE, &PostParams::default(), &lease).await;
    replaced.unwrap();
}
