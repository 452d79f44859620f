//! The extender and the timekeeper: whether a replica leads, and whether kube-scheduler calls the extender.

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::check::{Check, Lookup, Name, fail, get, ok, unknown, warn};
use super::nodes::{Pods, some};

const LEASE: &str = "extender's lease";
const SERVICE: &str = "extender's Service";
const ASKED: &str = "kube-scheduler";
const TIMEKEEPER: &str = "timekeeper's lease";

pub(super) async fn look(client: &Client, system: &str, pods: &Pods, now: Timestamp) -> Vec<Check> {
    let path = lease_path(system, "gpushare-extender");
    let missing = warn(
        LEASE,
        format!(
            "there is none in {system}: no extender runs, or a single one without --leader-elect"
        ),
        "run the extender (docs/extender.md), or give --system-namespace",
    );
    let fix = "look at the extender's pods in the namespace";
    vec![
        lease(client, &path, now, fix, missing).await,
        endpoints(client, system, "gpushare-extender", SERVICE).await,
        asked(pods),
    ]
}

/// Checked only if there are budgets: nothing else needs the timekeeper.
pub(super) async fn timekeeper(
    client: &Client,
    system: &str,
    budgets: usize,
    now: Timestamp,
) -> Vec<Check> {
    if budgets == 0 {
        return Vec::new();
    }
    let path = lease_path(system, "gpushare-timekeeper");
    let missing = fail(
        TIMEKEEPER,
        format!("there are {budgets} budgets, and no timekeeper has ever led: nothing is charged"),
        "run gpushare-control timekeeper (docs/budgets.md)",
    );
    let fix = "look at the timekeeper's pods";
    vec![lease(client, &path, now, fix, missing).await]
}

fn lease_path(system: &str, name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{system}/leases/{name}")
}

/// Whether the lease is held; `missing` is the finding if there is no such lease.
async fn lease(client: &Client, path: &str, now: Timestamp, fix: &str, missing: Check) -> Check {
    match get(client, path).await {
        Lookup::Found(lease) => held(missing.name, &lease, now, fix),
        Lookup::Missing => missing,
        Lookup::Unknown(error) => unknown(missing.name, "the lease", &error),
    }
}

fn held(name: Name, lease: &Value, now: Timestamp, fix: &str) -> Check {
    let text = |path: &str| {
        lease
            .pointer(path)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let Some(holder) = text("/spec/holderIdentity") else {
        return fail(name, "nobody holds it", fix);
    };
    let renewed: Option<Timestamp> = text("/spec/renewTime").and_then(|at| at.parse().ok());
    let lasts = lease
        .pointer("/spec/leaseDurationSeconds")
        .and_then(Value::as_i64);
    let (Some(renewed), Some(lasts)) = (renewed, lasts) else {
        return fail(name, format!("{holder} holds it and never renewed it"), fix);
    };
    let age = now.as_second().saturating_sub(renewed.as_second());
    // The clocks of machines differ, so a lease counts as expired only half a minute late.
    if age > lasts.saturating_add(30) {
        return fail(
            name,
            format!("{holder} holds it and has not renewed it for {age} s"),
            fix,
        );
    }
    ok(name, format!("held by {holder}"))
}

/// Whether a Service has a ready endpoint.
pub(super) async fn endpoints(
    client: &Client,
    namespace: &str,
    service: &str,
    name: Name,
) -> Check {
    let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
    match get(client, &path).await {
        Lookup::Found(_) => {}
        Lookup::Missing => {
            let message = format!("there is no Service {namespace}/{service}");
            let fix = "create it, unless the other side reaches the program by another address";
            return warn(name, message, fix);
        }
        Lookup::Unknown(error) => return unknown(name, "the Service", &error),
    }
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let slices = match get(client, &path).await {
        Lookup::Found(slices) => slices,
        Lookup::Missing => Value::Null,
        Lookup::Unknown(error) => return unknown(name, "endpoint slices", &error),
    };
    let slices = slices
        .get("items")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let own = slices.iter().filter(|slice| {
        let label = slice.pointer("/metadata/labels/kubernetes.io~1service-name");
        label.is_some_and(|label| label == service)
    });
    let ready = own
        .filter_map(|slice| slice.get("endpoints")?.as_array())
        .flatten()
        .filter(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
        .count();
    if ready == 0 {
        let fix = format!(
            "kubectl -n {namespace} get pods,endpointslices: one of its pods must be Ready"
        );
        return fail(name, format!("nobody serves behind {service}"), fix);
    }
    ok(name, format!("{ready} ready behind {service}"))
}

/// The records on pods show whether the scheduler calls the extender.
fn asked(pods: &Pods) -> Check {
    let found: Vec<(String, String)> = [unrecorded(pods), unbelievable(pods)]
        .into_iter()
        .flatten()
        .collect();
    if !found.is_empty() {
        let (messages, fixes): (Vec<String>, Vec<String>) = found.into_iter().unzip();
        return fail(ASKED, messages.join("; "), fixes.join("; "));
    }
    match pods.recorded {
        0 => ok(ASKED, "no pod has asked for cards yet"),
        recorded => ok(
            ASKED,
            format!("{recorded} pods hold cards that the extender chose"),
        ),
    }
}

/// What is wrong with pods for which the extender chose no card, and how to fix it.
fn unrecorded(pods: &Pods) -> Option<(String, String)> {
    let unrecorded = pods.unrecorded.as_slice();
    if unrecorded.is_empty() {
        return None;
    }
    let message = format!(
        "{} pods have a node and no card was chosen for them, so they get none and take the nodes' totals: {}",
        unrecorded.len(),
        some(unrecorded)
    );
    // A scheduler that calls the extender for one pod calls it for all, so these pods bypassed the scheduler.
    let by_hand = "delete them, their spec.nodeName was written by hand; kubectl apply -f deploy/admission.yaml refuses such pods";
    let fix = match pods.recorded {
        0 => format!(
            "name the extender in kube-scheduler's configuration, with bindVerb and all of managedResources (docs/extender.md); or {by_hand}"
        ),
        _ => by_hand.to_owned(),
    };
    Some((message, fix))
}

/// What is wrong with pods whose records do not match them, and how to fix it.
fn unbelievable(pods: &Pods) -> Option<(String, String)> {
    let unbelievable = pods.unbelievable.as_slice();
    let message = format!("records that are not valid: {}", some(unbelievable));
    let fix = "apply deploy/admission.yaml, and delete and recreate the pods with these records"
        .to_owned();
    (!unbelievable.is_empty()).then_some((message, fix))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::check::Status;
    use super::*;

    fn check(spec: &Value, expected: Status) {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let found = held(LEASE, &json!({"spec": spec}), now, "fix");
        assert_eq!(found.status, expected, "{spec}: {}", found.message);
    }

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let held = |renewed: &str| json!({"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed});
        check(&held("2026-01-01T00:00:58.000000Z"), Status::Ok);
        check(&held("2026-01-01T00:00:20.000000Z"), Status::Ok);
        check(&held("2025-12-31T23:00:00.000000Z"), Status::Fail);
        check(
            &json!({"holderIdentity": "", "leaseDurationSeconds": 1}),
            Status::Fail,
        );
        check(&json!({"holderIdentity": "one"}), Status::Fail);
    }

    #[test]
    fn pods_without_a_record_show_that_the_scheduler_does_not_ask() {
        let mut pods = Pods::default();
        assert_eq!(asked(&pods).status, Status::Ok);
        pods.unrecorded.push("a/b".to_owned());
        let found = asked(&pods);
        assert_eq!(found.status, Status::Fail);
        assert!(found.message.contains("a/b"), "{}", found.message);
    }

    #[test]
    fn a_record_that_cannot_be_believed_hides_no_pod_without_one() {
        let mut pods = Pods::default();
        pods.recorded += 1;
        pods.unrecorded.push("a/past".to_owned());
        pods.unbelievable.push("a/edited (why)".to_owned());
        let Check { message, fix, .. } = asked(&pods);
        assert!(
            message.contains("take the nodes' totals: a/past"),
            "{message}"
        );
        assert!(
            message.contains("are not valid: a/edited (why)"),
            "{message}"
        );
        let fix = fix.unwrap();
        assert!(fix.starts_with("delete them"), "{fix}");
        assert!(
            fix.ends_with("delete and recreate the pods with these records"),
            "{fix}"
        );
    }
}
