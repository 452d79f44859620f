//! The options of each verb, read from the query and the body, with the refusals the API gives for bad ones.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::USER_AGENT;
use serde_json::Value;

use super::query::Query;
use crate::failure::{Cause, Failure};
use crate::json::Path;
use crate::registry::{
    DeleteOptions, Paging, ServedResource, Stamp, UnknownFields, VersionMatch, Write,
};
use crate::rules::Part;
use crate::selector::{FieldSelector, LabelSelector, SelectorError};
use crate::store::Start;
use crate::watch::Filter;

/// A watch without a timeout of its own ends after this long.
const DEFAULT_WATCH: Duration = Duration::from_mins(45);

/// What a list or watch selects.
pub(crate) fn filter(
    served: &ServedResource,
    namespace: &str,
    query: &Query,
) -> Result<Filter, Failure> {
    let resource = &served.resource;
    let refuse = |error: SelectorError| Failure::bad_request(error.to_string());
    let labels = query.get("labelSelector").unwrap_or_default();
    let labels = LabelSelector::parse(labels).map_err(refuse)?;
    let text = query.get("fieldSelector").unwrap_or_default();
    let fields =
        FieldSelector::parse(text, resource.selectable, resource.namespaced).map_err(refuse)?;
    let fields = match served.view {
        Some(view) => fields.renamed(view.field),
        None => fields,
    };
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Ok(Filter {
        namespace,
        labels,
        fields,
    })
}

/// Which state a list must show, and which part of it.
pub(crate) fn list_options(query: &Query) -> Result<(VersionMatch, Paging), Failure> {
    let token = query.get("continue").map(str::to_owned);
    let limit = query.number("limit")?.unwrap_or(0);
    let mut causes = Vec::new();
    let version = query.get("resourceVersion");
    if query.get("sendInitialEvents").is_some() {
        causes.push(Cause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    let wanted = match (query.get("resourceVersionMatch"), version) {
        (Some(_), None) => {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
            VersionMatch::Latest
        }
        (Some("Exact"), Some("0")) => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
            VersionMatch::Latest
        }
        (Some("Exact"), Some(version)) => VersionMatch::Exact(parse_version(version)?),
        (Some("NotOlderThan") | None, Some(version)) => {
            VersionMatch::NotOlderThan(parse_version(version)?)
        }
        (Some(other), Some(_)) => {
            let (field, allowed) = ("resourceVersionMatch", ["Exact", "NotOlderThan", ""]);
            causes.push(Cause::not_supported(field, &other.into(), &allowed));
            VersionMatch::Latest
        }
        (None, None) => VersionMatch::Latest,
    };
    if token.is_some() && version.is_some_and(|version| version != "0") {
        return Err(Failure::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    if !causes.is_empty() {
        return Err(Failure::invalid_options("ListOptions", causes));
    }
    Ok((wanted, Paging { limit, token }))
}

/// A read may demand a minimum version, which must already exist.
pub(crate) fn get_options(query: &Query, current: u64) -> Result<(), Failure> {
    let wanted = query.get("resourceVersion").map(parse_version);
    match wanted.transpose()? {
        Some(wanted) if wanted > current => Err(Failure::version_too_large(wanted, current)),
        _ => Ok(()),
    }
}

/// How a watch starts and continues.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) start: Start,
    pub(crate) bookmarks: bool,
    /// Announce the end of the initial state by a marked bookmark.
    pub(crate) announce_initial: bool,
    pub(crate) timeout: Duration,
}

pub(crate) fn watch_options(query: &Query) -> Result<WatchOptions, Failure> {
    let mut causes = Vec::new();
    let initial = query.get("sendInitialEvents");
    let matched = query.get("resourceVersionMatch");
    if initial.is_some() && matched.is_none() {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden("resourceVersionMatch", why));
    }
    if let Some(matched) = matched {
        if initial.is_none() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        if matched != "NotOlderThan" {
            let (field, allowed) = ("resourceVersionMatch", ["NotOlderThan"]);
            causes.push(Cause::not_supported(field, &matched.into(), &allowed));
        }
    }
    if !causes.is_empty() {
        return Err(Failure::invalid_options("ListOptions", causes));
    }
    let bookmarks = query.flag("allowWatchBookmarks");
    let start = match (initial, query.get("resourceVersion")) {
        (Some(_), _) if query.flag("sendInitialEvents") => Start::Now,
        (Some(_), None | Some("0")) => Start::Next,
        (None, None | Some("0")) => Start::Now,
        (_, Some(version)) => {
            let version = version.parse();
            Start::After(version.map_err(|_| Failure::bare("resourceVersion is not a number"))?)
        }
    };
    let timeout = match query.number::<u64>("timeoutSeconds")? {
        None | Some(0) => DEFAULT_WATCH,
        Some(seconds) => Duration::from_secs(seconds),
    };
    // A client that takes bookmarks is told when the initial state is complete, whether it asked for that or not.
    let announce_initial = bookmarks && start == Start::Now;
    Ok(WatchOptions {
        start,
        bookmarks,
        announce_initial,
        timeout,
    })
}

fn parse_version(text: &str) -> Result<u64, Failure> {
    let message = || format!("invalid resource version: {text:?} is not a number");
    text.parse().map_err(|_| Failure::bad_request(message()))
}

/// How a write is to be done, from the parameters that all writes share.
pub(crate) fn write_options(
    query: &Query,
    headers: &HeaderMap,
    stamp: Stamp,
    part: Part,
) -> Result<Write, Failure> {
    let dry_run = match query.get("dryRun") {
        None => false,
        Some("All") => true,
        Some(other) => {
            let cause = Cause::not_supported("dryRun", &other.into(), &["All"]);
            return Err(Failure::invalid_options("CreateOptions", vec![cause]));
        }
    };
    let unknown_fields = match query.get("fieldValidation") {
        Some("Ignore") => UnknownFields::Ignore,
        None | Some("Warn") => UnknownFields::Warn,
        Some("Strict") => UnknownFields::Refuse,
        Some(other) => {
            let allowed = ["", "Ignore", "Strict", "Warn"];
            let cause = Cause::not_supported("fieldValidation", &other.into(), &allowed);
            return Err(Failure::invalid_options("CreateOptions", vec![cause]));
        }
    };
    let manager = query
        .get("fieldManager")
        .map_or_else(|| agent(headers), str::to_owned);
    Ok(Write {
        stamp,
        manager,
        part,
        dry_run,
        unknown_fields,
        mutations: Vec::new(),
    })
}

/// The field manager if the client names none: the program in its User-Agent.
fn agent(headers: &HeaderMap) -> String {
    let agent = headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}

/// The content type without its parameters; empty if there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let header = headers.get(hyper::header::CONTENT_TYPE);
    let value = header
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Delete options come in the body or, without one, in the query.
pub(crate) fn delete_options(query: &Query, body: &[u8]) -> Result<(DeleteOptions, bool), Failure> {
    let mut options = DeleteOptions {
        grace_seconds: query.number("gracePeriodSeconds")?,
        ..Default::default()
    };
    let mut dry_run = query.get("dryRun") == Some("All");
    check_propagation(query.get("propagationPolicy").unwrap_or_default())?;
    if !body.is_empty() {
        let sent: Value = serde_json::from_slice(body)
            .map_err(|e| Failure::bad_request(format!("couldn't get version/kind: {e}")))?;
        let kind = sent.text("kind");
        if !sent.is_object() || !kind.is_empty() && kind != "DeleteOptions" {
            let message = "decoded object cannot be converted to DeleteOptions";
            return Err(Failure::bad_request(message));
        }
        check_propagation(sent.text("propagationPolicy"))?;
        dry_run |= sent.list("dryRun").iter().any(|value| value == "All");
        options = from_object(&sent);
    }
    Ok((options, dry_run))
}

/// Every policy is treated as Background, but it must be a valid one.
fn check_propagation(policy: &str) -> Result<(), Failure> {
    let allowed = ["Foreground", "Background", "Orphan"];
    if policy.is_empty() || allowed.contains(&policy) {
        return Ok(());
    }
    let cause = Cause::not_supported("propagationPolicy", &policy.into(), &allowed);
    Err(Failure::invalid_options("DeleteOptions", vec![cause]))
}

pub(crate) fn from_object(sent: &Value) -> DeleteOptions {
    let text = |path: &str| sent.at(path).and_then(Value::as_str).map(str::to_owned);
    DeleteOptions {
        grace_seconds: sent.int("gracePeriodSeconds"),
        uid: text("preconditions.uid"),
        version: text("preconditions.resourceVersion"),
    }
}
