//! Job: pods until enough of them have succeeded, or too many have failed.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Controllers;
use super::owned::{PodNaming, is_active, is_leaving, is_ready, phase};
use crate::mirror::Key;

impl Controllers {
    pub(super) async fn look_at_job(&self, key: &Key) -> Result<(), kube::Error> {
        let job = self.jobs.get(key).filter(|job| !is_leaving(&**job));
        let Some(job) = job.filter(|job| !is_over(job)) else {
            return Ok(());
        };
        let Some(spec) = &job.spec else {
            return Ok(());
        };
        let uid = job.uid().unwrap_or_default();
        let number = |value: Option<i32>, default: usize| {
            value
                .and_then(|value| usize::try_from(value).ok())
                .unwrap_or(default)
        };
        let completions = number(spec.completions, 1);
        let parallelism = number(spec.parallelism, 1);
        let most_failures = number(spec.backoff_limit, 6);
        let pods = self.pods_of(&key.namespace, &uid);
        let count = |wanted: &str| pods.iter().filter(|pod| phase(pod) == wanted).count();
        let (succeeded, failed) = (count("Succeeded"), count("Failed"));
        let active = pods.iter().filter(|pod| is_active(pod)).count();
        let suspended = spec.suspend == Some(true);
        let over = succeeded >= completions || failed > most_failures;
        if !over && !suspended {
            let missing = parallelism
                .min(completions - succeeded)
                .saturating_sub(active);
            let labels = json!({
                "batch.kubernetes.io/job-name": key.name,
                "batch.kubernetes.io/controller-uid": uid,
                "job-name": key.name,
            });
            for _ in 0..missing {
                let naming = PodNaming::After(format!("{}-", key.name));
                self.create_pod(&*job, &spec.template, naming, &labels)
                    .await?;
            }
        }
        let mut status = json!({
            "startTime": job.status.as_ref().and_then(|status| status.start_time.clone()),
            "active": self.pods_of(&key.namespace, &uid).iter().filter(|pod| is_active(pod)).count(),
            "ready": pods.iter().filter(|pod| is_ready(pod)).count(),
            "succeeded": succeeded,
            "failed": failed,
        });
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        if let Some(status) = status.as_object_mut() {
            if status.get("startTime").is_some_and(Value::is_null) {
                status.insert("startTime".to_owned(), now.clone().into());
            }
            if over {
                let complete = succeeded >= completions;
                let kind = if complete { "Complete" } else { "Failed" };
                let condition = json!({"type": kind, "status": "True", "lastTransitionTime": now});
                status.insert("conditions".to_owned(), json!([condition]));
                if complete {
                    status.insert("completionTime".to_owned(), now.into());
                }
            }
        }
        self.write_status(&*job, status).await
    }
}

fn is_over(job: &Job) -> bool {
    let status = job.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}
