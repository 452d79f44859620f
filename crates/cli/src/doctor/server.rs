//! The API server: whether it answers, its version, and what the user may read.

use anyhow::{Context, Result};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use super::check::{Check, fail, ok, warn};
use crate::connection::said;

/// Admission policies and match conditions of webhooks are stable since this version.
const OLDEST: (u32, u32) = (1, 30);
const SERVER: &str = "API server";
const RIGHTS: &str = "your rights";

/// Fails only if no other check could read anything either.
pub(super) async fn look(client: &Client) -> Result<Vec<Check>> {
    let version = client
        .apiserver_version()
        .await
        .context("cannot reach the API server; check the kubeconfig and that the cluster runs")?;
    let number = |text: &str| -> u32 {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let found = (number(&version.major), number(&version.minor));
    let text = format!("version {}", version.git_version);
    let server = if found < OLDEST {
        let (major, minor) = OLDEST;
        let message = format!("{text} is older than {major}.{minor}");
        let fix = format!(
            "upgrade Kubernetes to {major}.{minor}: deploy/admission.yaml and deploy/webhook.yaml need it"
        );
        fail(SERVER, message, fix)
    } else {
        ok(SERVER, text)
    };
    let mut checks = vec![server];
    checks.push(rights(client).await);
    Ok(checks)
}

async fn rights(client: &Client) -> Check {
    let mut denied = Vec::new();
    for resource in ["nodes", "pods"] {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    resource: Some(resource.to_owned()),
                    verb: Some("list".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| !status.allowed) => {
                denied.push(resource);
            }
            Ok(_) => {}
            Err(error) => {
                let message = format!("cannot find out what you may do: {}", said(&error));
                return warn(RIGHTS, message, "grant create on selfsubjectaccessreviews");
            }
        }
    }
    if denied.is_empty() {
        return ok(RIGHTS, "you may list nodes and pods");
    }
    let denied = denied.join(" and ");
    let fix = format!("ask your administrator for list on {denied}, in all namespaces");
    fail(RIGHTS, format!("you may not list {denied}"), fix)
}
