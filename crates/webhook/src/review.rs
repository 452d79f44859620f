//! From an admission request to its answer: which decision it needs, and what is logged about it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gpushare_kube::admission::manifest::{Manifest, Pod, Workload};
use gpushare_kube::admission::{Answer, Refusal, Request, Review, ReviewError};
use serde::de::DeserializeOwned;

use super::Webhook;
use super::decide::{self, Reason, ReviewContext, Verdict};

/// Kinds with a template of pods.
const WORKLOADS: [(&str, &str); 7] = [
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
];

/// What was done, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Untouched,
    Patched,
    Warned,
    Denied(Reason),
}

impl Outcome {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Patched => "patched",
            Self::Warned => "warned",
            Self::Denied(_) => "denied",
        }
    }
}

impl Webhook {
    /// Answers a body from what is known now, without waiting for more.
    pub fn answer(&self, body: &[u8]) -> Result<Review, ReviewError> {
        Ok(self.review(Request::parse(body)?).0.into())
    }

    /// Answers one request, from memory.
    pub(super) fn review(&self, request: Request) -> (Answer, Outcome) {
        let kind = (request.kind.group.as_str(), request.kind.kind.as_str());
        let verdict = match kind {
            // The priority, containers and finalizers of an existing pod must not be touched.
            ("", "Pod") if request.operation == "CREATE" && request.sub_resource.is_empty() => {
                self.review_pod(&request)
            }
            kind if WORKLOADS.contains(&kind) && request.sub_resource.is_empty() => {
                self.review_template(&request)
            }
            _ => allowed(Vec::new()),
        };
        answer(request, verdict)
    }

    fn review_pod(&self, request: &Request) -> Verdict {
        let pod: Manifest = match read::<Pod>(request) {
            Ok(pod) => pod.into(),
            Err(verdict) => return verdict,
        };
        let verdict =
            self.with_context(request, |context| decide::pod(&self.0.rules, context, &pod));
        if let Verdict::Denied { reason, message } = &verdict {
            audit(request, &pod, *reason, message);
        }
        verdict
    }

    fn review_template(&self, request: &Request) -> Verdict {
        let workload: Workload = match read(request) {
            Ok(workload) => workload,
            // Kubernetes itself reports what is wrong with it: this webhook only warns.
            Err(_) => return allowed(Vec::new()),
        };
        let Some(template) = workload.template().filter(|own| !own.is_controlled()) else {
            return allowed(Vec::new());
        };
        let rules = &self.0.rules;
        allowed(self.with_context(request, |context| {
            decide::template(rules, context, &template)
        }))
    }

    fn with_context<T>(&self, request: &Request, decide: impl FnOnce(ReviewContext<'_>) -> T) -> T {
        let view = self.0.view.read();
        decide(view.context(&request.namespace))
    }
}

fn allowed(warnings: Vec<String>) -> Verdict {
    Verdict::Allowed {
        patch: super::patch::Patch::default(),
        warnings,
    }
}

fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Verdict> {
    let object = request
        .object
        .as_ref()
        .map_or("null", |object| object.get());
    serde_json::from_str(object).map_err(|error| Verdict::Denied {
        reason: Reason::Malformed,
        message: format!(
            "gpushare: the {} cannot be read: {error}",
            request.kind.kind
        ),
    })
}

fn answer(request: Request, verdict: Verdict) -> (Answer, Outcome) {
    let mut answer = Answer {
        uid: request.uid,
        allowed: true,
        status: None,
        patch: None,
        patch_type: None,
        warnings: Vec::new(),
    };
    match verdict {
        Verdict::Allowed { patch, warnings } => {
            let outcome = match (patch.is_empty(), warnings.is_empty()) {
                (false, _) => Outcome::Patched,
                (true, false) => Outcome::Warned,
                (true, true) => Outcome::Untouched,
            };
            answer.warnings = warnings;
            match patch.json() {
                Ok(_) if patch.is_empty() => (answer, outcome),
                Ok(json) => {
                    answer.patch = Some(STANDARD.encode(json));
                    answer.patch_type = Some("JSONPatch");
                    (answer, outcome)
                }
                Err(error) => {
                    let message = format!("gpushare: the patch cannot be written: {error}");
                    (refused(answer, Reason::Malformed, message), outcome)
                }
            }
        }
        Verdict::Denied { reason, message } => {
            let answer = refused(answer, reason, message);
            (answer, Outcome::Denied(reason))
        }
    }
}

fn refused(answer: Answer, reason: Reason, message: String) -> Answer {
    let (code, name) = match reason {
        Reason::Request => (422, "Invalid"),
        Reason::Priority => (403, "Forbidden"),
        Reason::Unknown => (503, "ServiceUnavailable"),
        Reason::Malformed => (400, "BadRequest"),
    };
    Answer {
        allowed: false,
        status: Some(Refusal {
            code,
            reason: name,
            message,
        }),
        ..answer
    }
}

/// Logs one line for every refusal, with a target of its own so that these lines can be kept apart.
fn audit(request: &Request, pod: &Manifest, reason: Reason, message: &str) {
    tracing::info!(
        target: gpushare_daemon::logging::AUDIT,
        namespace = request.namespace,
        pod = pod.title(),
        user = request.user_info.username,
        dry_run = request.dry_run.unwrap_or(false),
        reason = reason.label(),
        refusal = message,
        "pod denied"
    );
}

#[cfg(test)]
mod tests;
