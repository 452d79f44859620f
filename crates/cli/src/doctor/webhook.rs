//! The admission webhook: whether it is configured, trusted and served, and when its CA expires.

use std::collections::BTreeMap;

use gpushare_kube::trust::{
    MutatingWebhookConfiguration, Trust, ValidatingWebhookConfiguration, certificate,
};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::answer;
use super::check::{Check, Lookup, fail, get, ok, unknown, warn};
use super::extender::endpoints;

const CONFIGURED: &str = "webhook";
const MUTATING: &str = "mutatingwebhookconfigurations";
const SERVED: &str = "webhook's Service";
const SECONDS_IN_A_DAY: i64 = 86_400;
/// The webhook renews its certificates long before this many days are left.
const SOON_DAYS: i64 = 3;

pub(super) async fn look(
    client: &Client,
    system: &str,
    budgets: usize,
    now: Timestamp,
) -> Vec<Check> {
    let kinds = [MUTATING, "validatingwebhookconfigurations"];
    let mut found = BTreeMap::new();
    for kind in kinds {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/gpushare");
        match get(client, &path).await {
            Lookup::Found(configuration) => {
                found.insert(kind, configuration);
            }
            Lookup::Missing => {}
            Lookup::Unknown(error) => {
                return vec![unknown(CONFIGURED, "its configuration", &error)];
            }
        }
    }
    let fix = "kubectl apply -f deploy/webhook.yaml";
    match found.len() {
        0 if budgets > 0 => {
            let message =
                "it is not configured: nobody's budget is looked at when pods are created";
            return vec![fail(CONFIGURED, message, fix)];
        }
        0 => {
            let message =
                "it is not configured: mistakes are reported only after the pod is created";
            return vec![warn(CONFIGURED, message, format!("{fix}, if you want it"))];
        }
        _ => {}
    }
    let mut checks: Vec<Check> = Vec::new();
    for kind in kinds {
        checks.push(match found.get(kind) {
            Some(configuration) => configured(kind, configuration, now),
            None => fail(CONFIGURED, format!("there is no {kind} gpushare"), fix),
        });
    }
    checks.push(endpoints(client, system, "gpushare-webhook", SERVED).await);
    if found.contains_key(MUTATING) {
        checks.push(answer::look(client, system).await);
    }
    checks
}

fn configured(kind: &'static str, configuration: &Value, now: Timestamp) -> Check {
    let mutating = kind == MUTATING;
    let short = if mutating { "mutating" } else { "validating" };
    let fix =
        "kubectl apply -f deploy/webhook.yaml; the webhook writes its caBundle itself when it runs";
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    let open = webhooks.into_iter().flatten().any(|webhook| {
        let policy = webhook.get("failurePolicy").and_then(Value::as_str);
        mutating && policy == Some("Ignore")
    });
    if open {
        let message =
            format!("{short}: failurePolicy is Ignore, so pods get past budgets while it is away");
        return warn(CONFIGURED, message, fix);
    }
    let bundles = match bundles(mutating, configuration) {
        Ok(bundles) => bundles,
        Err(error) => return unknown(CONFIGURED, "its configuration", &error),
    };
    if bundles.iter().any(|bundle| bundle.trim().is_empty()) {
        return fail(
            CONFIGURED,
            format!("{short}: there is no caBundle, so the API server does not believe it"),
            fix,
        );
    }
    let ends: Vec<i64> = bundles
        .iter()
        .filter_map(|bundle| certificate::last_end(bundle))
        .collect();
    let Some(end) = ends.iter().min() else {
        return warn(
            CONFIGURED,
            format!("{short}: its caBundle holds no certificate that can be read"),
            fix,
        );
    };
    let days = end.saturating_sub(now.as_second()) / SECONDS_IN_A_DAY;
    if *end <= now.as_second() {
        return fail(
            CONFIGURED,
            format!("{short}: the certificate in its caBundle has expired"),
            fix,
        );
    }
    if days < SOON_DAYS {
        let message =
            format!("{short}: the certificate in its caBundle expires within {SOON_DAYS} days");
        return warn(
            CONFIGURED,
            message,
            "see whether the webhook runs: it renews its certificates by itself",
        );
    }
    ok(
        CONFIGURED,
        format!("{short}: configured and believed for {days} more days"),
    )
}

fn bundles(mutating: bool, configuration: &Value) -> Result<Vec<String>, String> {
    let text = |error: serde_json::Error| error.to_string();
    let trust = if mutating {
        let read: MutatingWebhookConfiguration =
            serde_json::from_value(configuration.clone()).map_err(text)?;
        Trust::of(&read)
    } else {
        let read: ValidatingWebhookConfiguration =
            serde_json::from_value(configuration.clone()).map_err(text)?;
        Trust::of(&read)
    };
    Ok(trust.bundles().map(str::to_owned).collect())
}
