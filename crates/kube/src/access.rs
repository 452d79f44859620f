//! Who sends a request, and what they may do. The API server decides both; nothing is decided or cached here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::call::{CallError, call};

const TIMEOUT: Duration = Duration::from_secs(5);
/// The key under which the API server reports the pod that a service account's token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// A user as the API server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A verb on a resource of the group `gpushare.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub verb: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl User {
    /// The namespace of a service account; `None` for other users.
    pub fn service_account_namespace(&self) -> Option<&str> {
        let account = self.name.strip_prefix("system:serviceaccount:")?;
        let (namespace, _) = account.split_once(':')?;
        // The API server sets the group together with the name. A name without the group proves nothing.
        let group = format!("system:serviceaccounts:{namespace}");
        self.groups.contains(&group).then_some(namespace)
    }

    /// The uid of the pod for which the token was made.
    pub fn pod_uid(&self) -> Option<&str> {
        let uids = self.extra.get(POD_UID)?;
        uids.first().map(String::as_str)
    }
}

impl fmt::Display for Right {
    /// In terms of RBAC roles, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the verb {:?} on {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        f.write_str(".gpushare.io")?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in the namespace {namespace:?}"),
            None => f.write_str(" in the whole cluster"),
        }
    }
}

/// The user that the token belongs to; `None` if the token is invalid, has expired, or is for other audiences. An
/// empty list of audiences means those of the API server itself.
pub async fn whose(
    client: &Client,
    token: &str,
    audiences: &[&str],
) -> Result<Option<User>, CallError> {
    let wanted: Vec<String> = audiences.iter().map(|&text| text.to_owned()).collect();
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            audiences: Some(wanted).filter(|wanted| !wanted.is_empty()),
        },
        ..TokenReview::default()
    };
    let review = ask(client, "whose token it is", &review).await?;
    let status = review.status.unwrap_or_default();
    let meant = status.audiences.unwrap_or_default();
    // An authenticator that ignores audiences returns none. Such a token may be meant for another service.
    let for_us = audiences.is_empty() || meant.iter().any(|one| audiences.contains(&one.as_str()));
    if status.authenticated != Some(true) || !for_us {
        return Ok(None);
    }
    Ok(status.user.map(|user| User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }))
}

/// Whether the API server grants the user this right.
pub async fn may(client: &Client, user: &User, right: &Right) -> Result<bool, CallError> {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: text(&user.name),
            uid: text(&user.uid),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                group: text("gpushare.io"),
                version: text("v1alpha1"),
                verb: text(right.verb),
                resource: text(right.resource),
                subresource: right.subresource.and_then(text),
                namespace: right.namespace.clone(),
                name: right.name.clone(),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let review = ask(client, "what a user may do", &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

async fn ask<K>(client: &Client, what: &'static str, review: &K) -> Result<K, CallError>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let params = PostParams::default();
    let what = || format!("ask the API server {what}");
    call(TIMEOUT, what, api.create(&params, review)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..User::default()
        }
    }

    #[test]
    fn an_account_has_the_namespace_that_the_api_server_vouches_for() {
        let account = "system:serviceaccount:a:default";
        let vouched = user(account, &["system:serviceaccounts:a"]);
        assert_eq!(vouched.service_account_namespace(), Some("a"));
        for forged in [
            user(account, &[]),
            user(account, &["system:serviceaccounts:b"]),
            user("system:serviceaccount:a", &["system:serviceaccounts:a"]),
            user("ada", &["system:serviceaccounts:a"]),
        ] {
            assert_eq!(forged.service_account_namespace(), None, "{forged:?}");
        }
    }

    #[test]
    fn a_right_reads_as_it_is_written_into_a_role() {
        let mut right = Right {
            verb: "get",
            resource: "budgetstatements",
            subresource: None,
            namespace: Some("a".to_owned()),
            name: None,
        };
        assert_eq!(
            right.to_string(),
            r#"the verb "get" on budgetstatements.gpushare.io in the namespace "a""#
        );
        right.namespace = None;
        right.subresource = Some("statement");
        right.name = Some("b".to_owned());
        assert_eq!(
            right.to_string(),
            r#"the verb "get" on budgetstatements/statement.gpushare.io "b" in the whole cluster"#
        );
    }
}
