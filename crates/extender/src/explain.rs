//! `/explain`: why a pod waits, or whether one that does not exist yet would fit, for people's tools.
//!
//! Any replica answers, from what it knows; a pod that it does not know is read from the API server.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use gpushare_core::explain::{CardDetail, Explanation, Report, Tally};
use gpushare_core::{NodeName, PodAsk, PodUid, Steps};
use gpushare_kube::bind::read_pod;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde::{Deserialize, Serialize};

use super::Extender;
use super::routes::{bad_request, error_response, internal_error, json};
use super::wire::{self, BodyError, checked_name};

/// Nodes looked at under one lock: binds and watches need the lock, too.
const IN_ONE_GO: usize = 256;

#[derive(Debug, Deserialize)]
pub(super) struct ExplainQuery {
    namespace: String,
    pod: String,
}

/// A pod that need not exist, and the nodes in question; all if none are given.
#[derive(Debug, Deserialize)]
struct Proposed {
    #[serde(default)]
    pod: Option<slim::Pod>,
    #[serde(default)]
    nodes: Option<Vec<String>>,
}

/// The status of a pod.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum PodStatus {
    /// The scheduler asked about it, and no node was offered.
    Waiting,
    /// It has no node, and the scheduler has not asked about it, or was last offered one.
    Pending,
    Bound,
    Invalid,
    /// It asks for no devices that gpushare knows.
    NotOurs,
    /// It was proposed, and need not exist.
    Proposed,
}

#[derive(Debug, Serialize)]
struct Answer {
    namespace: String,
    name: String,
    standing: PodStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    /// How many nodes we know that the scheduler did not name: its own checks ruled them out, and its
    /// event on the pod says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_named_by_scheduler: Option<usize>,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    Report(Report),
    Message { message: String },
}

impl What {
    fn message(message: impl Into<String>) -> Self {
        Self::Message {
            message: message.into(),
        }
    }
}

pub(super) async fn of_known(
    State(extender): State<Extender>,
    Query(query): Query<ExplainQuery>,
) -> Response {
    let names = || {
        let namespace = checked_name("namespace", query.namespace)?;
        Ok::<_, BodyError>((namespace, checked_name("pod", query.pod)?))
    };
    let (namespace, name) = match names() {
        Ok(names) => names,
        Err(error) => return bad_request(&error),
    };
    if let Some(not_ready) = extender.not_ready() {
        return not_ready;
    }
    let shared = &extender.0;
    let known = {
        let books = shared.books.read();
        let known = books.pods().named(&namespace, &name);
        known.map(|known| (known.pod.uid.clone(), known.ask.clone(), known.node.clone()))
    };
    let (uid, ask, node) = match known {
        Some((uid, ask, node)) => (uid, Ok(Some(ask)), node),
        None => match read_pod(&shared.client, &shared.dialects, &namespace, &name).await {
            Ok(Some(facts)) => (facts.uid, facts.ask, facts.node),
            Ok(None) => {
                let message = format!("gpushare: there is no pod {namespace}/{name}");
                return error_response(StatusCode::NOT_FOUND, message);
            }
            Err(error) => {
                return error_response(StatusCode::BAD_GATEWAY, format!("gpushare: {error}"));
            }
        },
    };
    let standing = |standing, what| Answer {
        namespace: namespace.clone(),
        name: name.clone(),
        standing,
        node: node.clone(),
        not_named_by_scheduler: None,
        what,
    };
    let answer = match (&ask, &node) {
        (Err(violations), _) => standing(PodStatus::Invalid, What::message(violations.to_string())),
        (Ok(None), _) => {
            let message = "the pod asks for no cards that gpushare knows";
            standing(PodStatus::NotOurs, What::message(message))
        }
        (Ok(Some(_)), Some(node)) => {
            let message = format!("the pod is bound to {node}");
            standing(PodStatus::Bound, What::message(message))
        }
        (Ok(Some(ask)), None) => {
            let ask = ask.clone();
            let known = tokio::task::spawn_blocking(move || extender.of_pending(&uid, &ask)).await;
            match known {
                Ok((found, others, report)) => Answer {
                    not_named_by_scheduler: others,
                    ..standing(found, What::Report(report))
                },
                Err(error) => return internal_error(&error),
            }
        }
    };
    json(StatusCode::OK, &answer)
}

pub(super) async fn of_proposed(
    State(extender): State<Extender>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let body = match extender.0.body_room.read(&headers, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if let Some(not_ready) = extender.not_ready() {
        return not_ready;
    }
    let work = move || match extender.of_manifest(&body.bytes) {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(error) => bad_request(&error),
    };
    let worked = tokio::task::spawn_blocking(work).await;
    worked.unwrap_or_else(|error| internal_error(&error))
}

impl Extender {
    fn not_ready(&self) -> Option<Response> {
        let missing = self.0.books.read().ready().err()?;
        let message = format!("gpushare: {missing}");
        Some(error_response(StatusCode::SERVICE_UNAVAILABLE, message))
    }

    /// Why each of these nodes does or does not take the pod.
    pub(super) fn explain(&self, pod: &PodUid, ask: &PodAsk, nodes: &[NodeName]) -> Explanation {
        let (mut tally, steps) = (Tally::default(), Steps::for_request());
        for some in nodes.chunks(IN_ONE_GO) {
            let books = self.0.books.read();
            let search = books.ledger().search(ask, &steps);
            for node in some {
                tally.add(node, books.ledger().fit(node.as_str(), pod, &search));
            }
        }
        tally.finish()
    }

    fn report(&self, pod: &PodUid, ask: &PodAsk, nodes: &[NodeName]) -> Report {
        let explanation = self.explain(pod, ask, nodes);
        explanation.report(ask, &self.0.dialects, |node| {
            let books = self.0.books.read();
            let ledger = books.ledger();
            let steps = Steps::new(0);
            let search = ledger.search(ask, &steps);
            let rooms = ledger
                .node(node.as_str())
                .map_or(&[][..], |view| view.rooms());
            let detail = |room| CardDetail::new(ledger.classes(), &search, room);
            rooms.iter().map(detail).collect()
        })
    }

    /// The pod's status, how many nodes the scheduler ruled out, and why the others do not take it.
    fn of_pending(&self, pod: &PodUid, ask: &PodAsk) -> (PodStatus, Option<usize>, Report) {
        let (standing, others, nodes) = {
            let books = self.0.books.read();
            let candidates = books.waiting().candidates(pod);
            let nodes = books.nodes().within(candidates.as_deref());
            let all = books.nodes().within(None).len();
            match candidates {
                Some(_) => (PodStatus::Waiting, Some(all - nodes.len()), nodes),
                None => (PodStatus::Pending, None, nodes),
            }
        };
        (standing, others, self.report(pod, ask, &nodes))
    }

    fn of_manifest(&self, body: &[u8]) -> Result<Answer, BodyError> {
        const EXPECTED: &str = "a Pod, or of an object with pod and nodes";
        let Proposed { pod, nodes } = wire::json(EXPECTED, body)?;
        let pod: slim::Pod = match pod {
            Some(pod) => pod,
            None => wire::json(EXPECTED, body)?,
        };
        if pod.spec.containers.is_empty() {
            return Err(BodyError::Missing("spec.containers"));
        }
        let facts = PodFacts::proposed(&pod, &self.0.dialects);
        let nodes = match nodes {
            Some(names) => names.iter().map(NodeName::new).collect(),
            None => self.0.books.read().nodes().within(None),
        };
        let (standing, what) = match &facts.ask {
            Err(violations) => (PodStatus::Invalid, What::message(violations.to_string())),
            Ok(None) => {
                let message = "the pod asks for no cards that gpushare knows";
                (PodStatus::NotOurs, What::message(message))
            }
            // The pod's uid is not used, even if it has one: what the pod already holds would count as its own.
            Ok(Some(ask)) => {
                let report = self.report(&PodUid::new(""), ask, &nodes);
                (PodStatus::Proposed, What::Report(report))
            }
        };
        Ok(Answer {
            namespace: facts.namespace,
            name: facts.name,
            standing,
            node: None,
            not_named_by_scheduler: None,
            what,
        })
    }
}
