//! The webhook's answer to real reviews over TLS, beside decoding the same body and encoding an answer of the same
//! size.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::client::{Connection, Request};
use crate::floor::admission::PATCH;
use crate::lab::Lab;
use crate::measure::{median, p99, times_in_turns};
use crate::process::{Server, Webhook};
use crate::report::{Limit, Row};
use crate::tenants;

/// Reviews from a real API server: a pod with a name, and one of a ReplicaSet.
const REVIEWS: [&str; 2] = [
    include_str!("../../../../crates/webhook/tests/reviews/named.json"),
    include_str!("../../../../crates/webhook/tests/reviews/generated.json"),
];
/// How many namespaces take turns: within their budget, over it, and without one.
const ASKING: usize = 64;
/// A hundredth of the time that the API server allows us.
const SLOWEST_MICROS: f64 = 20_000.0;

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let api = Server::start(&["serve-tenants"])?;
    let webhook = Webhook::start(&api.url())?;
    let certificate = &webhook.certificate;
    let text = |path: &std::path::Path| path.display().to_string();
    let floor = Server::start(&[
        "serve-admission-floor",
        "--certificate",
        &text(&certificate.chain),
        "--key",
        &text(&certificate.key),
    ])?;
    let mut asked = Connection::open_tls(webhook.address, &certificate.pem)?;
    let mut bare = Connection::open_tls(floor.address, &certificate.pem)?;
    let (mut requests, mut bare_requests) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for number in 0..ASKING {
        let step = tenants::NAMESPACES / ASKING;
        for review in REVIEWS {
            let body = review_in(review, &tenants::namespace(number * step))?;
            let request = Request::post("/mutate", "", &body);
            let answer: Value = serde_json::from_slice(asked.send(&request)?)?;
            ensure!(answer["response"]["allowed"] == true, "refused: {answer}");
            let patch = answer["response"]["patch"].as_str().context("no patch")?;
            let headers = format!("{PATCH}: {}\r\n", patch.len());
            bytes = body.len();
            requests.push(request);
            bare_requests.push(Request::post("/mutate", &headers, &body));
        }
    }
    let (times, floors) =
        times_in_turns(asked.one_by_one(&requests), bare.one_by_one(&bare_requests))?;
    let note = format!("{} answers to bodies of about {bytes} bytes", times.len());
    Ok(vec![
        Row::time(
            "admission, p50",
            median(times.clone())?,
            median(floors.clone())?,
        )
        .limit(Limit::RatioAtMost(2.0))
        .note(note),
        Row::time("admission, p99", p99(times)?, p99(floors)?).limit(Limit::AtMost(SLOWEST_MICROS)),
    ])
}

/// A real review of a pod that asks for memory alone, in this namespace.
fn review_in(review: &str, namespace: &str) -> Result<Vec<u8>> {
    let mut review: Value = serde_json::from_str(review)?;
    let request = &mut review["request"];
    request["namespace"] = json!(namespace);
    request["object"]["metadata"]["namespace"] = json!(namespace);
    let asks = json!({"cpu": "1", "memory": "1Gi", "gpushare.io/gpu-mem": "3072"});
    request["object"]["spec"]["containers"][0]["resources"] =
        json!({"limits": asks, "requests": asks});
    Ok(serde_json::to_vec(&review)?)
}
