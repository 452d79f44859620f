//! The shared lease with any content: a write is based on the version that was read, and a candidate never takes the
//! lease from a holder at first sight.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response};
use gpushare_core::lease::{Candidate, Step, Timing};
use gpushare_kube::lease::{Claim, LeaseObject, ObservedLease};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::world::block_on;
use crate::Verdict;

const ME: &str = "me";
const TIMING: Timing = Timing {
    duration: 15_000,
    renew_deadline: 10_000,
    retry: 2_000,
};

/// What was written last.
type Written = Arc<Mutex<Option<Value>>>;

pub(crate) fn check(data: &[u8]) -> Verdict {
    block_on(async {
        let written = Written::default();
        let client = api_server(data.to_vec(), written.clone());
        let lease = LeaseObject::new(client, "kube-system", "extender", Duration::from_secs(5));
        let Ok(Some(observed)) = lease.read().await else {
            return Verdict::Refused;
        };
        check_candidate(&observed);
        check_write(&lease, &observed, data, &written).await;
        Verdict::Accepted
    })
}

/// An API server with this lease, which answers a write with what was written.
fn api_server(stored: Vec<u8>, written: Written) -> Client {
    let serve = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (stored, written) = (stored.clone(), written.clone());
        async move {
            if request.method() == Method::GET {
                return Ok::<_, std::convert::Infallible>(Response::new(Body::from(stored)));
            }
            let body = request.into_body().collect().await;
            let body = body.expect("a body").to_bytes();
            let value = serde_json::from_slice(&body).expect("a write in JSON");
            *written.lock().expect("no panic before") = Some(value);
            Ok(Response::new(Body::from(body)))
        }
    });
    Client::new(serve, "default")
}

fn check_candidate(observed: &ObservedLease) {
    let mut candidate = Candidate::new(ME, TIMING);
    let lease = &observed.lease;
    let step = candidate.step(0, Some(lease.clone()));
    assert!(!candidate.leads(0), "nothing was written yet");
    match step {
        Step::Take { transitions } => {
            assert_eq!(lease.duration, None, "it was not given back");
            assert!(
                lease.holder.is_empty(),
                "taken from its holder at first sight"
            );
            assert!(transitions > lease.transitions || transitions == u64::MAX);
        }
        Step::Wait(pause) => assert!(pause > 0 && pause <= TIMING.retry),
        Step::Create => panic!("it exists"),
    }
}

async fn check_write(
    lease: &LeaseObject,
    observed: &ObservedLease,
    read: &[u8],
    written: &Written,
) {
    let claim = Claim {
        identity: ME,
        transitions: observed.lease.transitions.saturating_add(1),
        duration: TIMING.duration,
    };
    let answer = lease.take(observed, claim, Timestamp::UNIX_EPOCH).await;
    let renewed = answer.expect("the write is answered");
    assert!(
        renewed.is_none(),
        "a version that did not change is no renewal"
    );
    let written = written.lock().expect("no panic before").take();
    let written = written.expect("it was written");
    let at = |path: &str| written.pointer(path).cloned().unwrap_or_default();
    assert_eq!(at("/spec/holderIdentity"), ME);
    assert_eq!(at("/spec/leaseDurationSeconds"), 15);
    let transitions = at("/spec/leaseTransitions").as_i64();
    assert!(transitions.is_some_and(|count| count > 0));
    let Ok(read) = serde_json::from_slice::<Value>(read) else {
        return;
    };
    for path in ["/metadata/resourceVersion", "/metadata/uid"] {
        let before = read.pointer(path).cloned().unwrap_or_default();
        assert_eq!(at(path), before, "{path} is what the write is based on");
    }
}
