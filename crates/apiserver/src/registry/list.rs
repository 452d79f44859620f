//! List: the current state or an earlier one, whole or in pages that all show the same version.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::{Value, json};

use super::{Registry, ServedResource};
use crate::failure::Failure;
use crate::json::Path;
use crate::object::Object;
use crate::store::{OutOfReach, Store, key};
use crate::watch::Filter;

/// Which state a list must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// The current state.
    Latest,
    /// The current state, which must not be older than this version.
    NotOlderThan(u64),
    /// The state at this version.
    Exact(u64),
}

/// How much of a list to return, and from where.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paging {
    /// 0 means everything.
    pub(crate) limit: usize,
    pub(crate) token: Option<String>,
}

/// A list, or one page of it.
#[derive(Debug)]
pub(crate) struct ObjectList {
    pub(crate) items: Vec<Arc<Object>>,
    pub(crate) version: u64,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl Registry {
    pub(crate) fn list(
        &self,
        served: &ServedResource,
        filter: &Filter,
        wanted: VersionMatch,
        paging: &Paging,
    ) -> Result<ObjectList, Failure> {
        let token = paging.token.as_deref().map(Token::parse).transpose()?;
        let (mut items, version) = {
            let store = self.store();
            match (&token, wanted) {
                (Some(token), _) => token.continued(&store, served, filter)?,
                (None, VersionMatch::Exact(version)) => (at(&store, served, version)?, version),
                (None, VersionMatch::NotOlderThan(version)) if version > store.version() => {
                    return Err(Failure::version_too_large(version, store.version()));
                }
                (None, _) => (
                    store.scan(served.table, filter.namespace.as_deref()),
                    store.version(),
                ),
            }
        };
        if let Some(token) = &token {
            items.retain(|object| key(object.namespace(), object.name()) > token.after);
        }
        items.retain(|object| filter.matches(object));
        let more = paging.limit > 0 && items.len() > paging.limit;
        let remaining = more.then(|| items.len() - paging.limit);
        if more {
            items.truncate(paging.limit);
        }
        let next = items.last().filter(|_| more).map(|last| {
            Token {
                version: Some(version),
                after: key(last.namespace(), last.name()),
            }
            .text()
        });
        let remaining = remaining.filter(|_| !filter.has_selector());
        Ok(ObjectList {
            items,
            version,
            next,
            remaining,
        })
    }
}

fn at(store: &Store, served: &ServedResource, version: u64) -> Result<Vec<Arc<Object>>, Failure> {
    match store.scan_at(served.table, version) {
        Ok(objects) => Ok(objects.into_values().collect()),
        Err(OutOfReach::TooOld { oldest }) => Err(Failure::gone(format!(
            "too old resource version: {version} ({oldest})"
        ))),
        Err(OutOfReach::TooNew { current }) => Err(Failure::version_too_large(version, current)),
    }
}

/// Where the next page begins.
#[derive(Debug)]
struct Token {
    /// `None` continues with the current state, as offered when the first page's state has expired.
    version: Option<u64>,
    after: String,
}

impl Token {
    fn text(&self) -> String {
        let version = self.version.map_or(-1, u64::cast_signed);
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": self.after});
        STANDARD_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let refuse = || Failure::bad_request("continue key is not valid");
        let bytes = STANDARD_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| refuse())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        let version = token.int("rv").ok_or_else(refuse)?;
        let after = token
            .at("start")
            .and_then(Value::as_str)
            .ok_or_else(refuse)?;
        Ok(Self {
            version: u64::try_from(version).ok(),
            after: after.to_owned(),
        })
    }

    fn continued(
        &self,
        store: &Store,
        served: &ServedResource,
        filter: &Filter,
    ) -> Result<(Vec<Arc<Object>>, u64), Failure> {
        let Some(version) = self.version else {
            let items = store.scan(served.table, filter.namespace.as_deref());
            return Ok((items, store.version()));
        };
        match at(store, served, version) {
            Ok(items) => Ok((items, version)),
            Err(failure) if failure.code == 410 => {
                let mut failure = Failure::gone(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter, or use the \
                     continue token in this response to retrieve the remainder of the results.",
                );
                let rest = Token {
                    version: None,
                    after: self.after.clone(),
                };
                failure.resume = Some(rest.text());
                Err(failure)
            }
            Err(failure) => Err(failure),
        }
    }
}
