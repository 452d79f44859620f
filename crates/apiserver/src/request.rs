//! What a request is about, as RBAC describes it: a verb and a resource. Faults select requests with it,
//! and requests are counted by it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Whether the verb changes anything.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

/// One request to a resource.
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    pub(crate) verb: Verb,
    /// `pods`, `pods/binding`, `leases.coordination.k8s.io`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Selects requests. What is not specified matches everything.
#[derive(Debug, Clone, Default)]
pub struct On {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl On {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// `pods`, `pods/binding`, `leases.coordination.k8s.io`.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(crate) fn matches(&self, request: &RequestInfo) -> bool {
        let same = |wanted: &Option<String>, actual: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == actual)
        };
        self.verb.is_none_or(|verb| verb == request.verb)
            && same(&self.resource, &request.resource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
    }
}

/// How often each verb was requested for each resource.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Mutex<BTreeMap<(String, Verb), usize>>>);

impl Requests {
    pub(crate) fn record(&self, request: &RequestInfo) {
        *self
            .0
            .lock()
            .entry((request.resource.clone(), request.verb))
            .or_default() += 1;
    }

    /// Requests of one verb to one resource (`pods`, `pods/binding`), refused and faulted ones included.
    pub fn count(&self, verb: Verb, resource: &str) -> usize {
        self.0
            .lock()
            .get(&(resource.to_owned(), verb))
            .copied()
            .unwrap_or(0)
    }

    /// All requests that change something.
    pub fn writes(&self) -> usize {
        self.0
            .lock()
            .iter()
            .filter(|((_, verb), _)| verb.is_write())
            .map(|(_, n)| n)
            .sum()
    }

    pub fn total(&self) -> usize {
        self.0.lock().values().sum()
    }

    /// Every count, by resource and verb, for messages of failed assertions.
    pub fn by_resource(&self) -> BTreeMap<(String, Verb), usize> {
        self.0.lock().clone()
    }

    /// Starts counting from zero.
    pub fn reset(&self) {
        self.0.lock().clear();
    }
}
