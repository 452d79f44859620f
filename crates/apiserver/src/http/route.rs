//! Maps a method and a path to a verb and a resource.

use hyper::Method;

use super::query::{Query, decoded};
use crate::failure::Failure;
use crate::registry::{Registry, ServedResource, Target};
use crate::request::{RequestInfo, Verb};
use crate::resource::Subresource;

/// Subresources of a pod that connect to its containers.
const INTO_CONTAINERS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Route<'r> {
    Resource(ResourceRoute<'r>),
    /// Anything that describes the server itself.
    Document(Vec<String>),
}

/// A request to a resource.
#[derive(Debug)]
pub(crate) struct ResourceRoute<'r> {
    pub(crate) verb: Verb,
    pub(crate) target: Target<'r>,
    pub(crate) subresource: Option<Subresource>,
}

impl ResourceRoute<'_> {
    pub(crate) fn info(&self) -> RequestInfo {
        let mut resource = self.target.served.resource.qualified();
        if let Some(subresource) = self.subresource {
            // `pods/binding`, `deployments/status.apps`: the group stays at the end, as in access rules' messages.
            let plural = self.target.served.resource.plural;
            resource = resource.replacen(plural, &format!("{plural}/{}", subresource.name()), 1);
        }
        RequestInfo {
            verb: self.verb,
            resource,
            namespace: self.target.namespace.clone(),
            name: self.target.name.clone(),
        }
    }
}

pub(crate) fn route<'r>(
    registry: &'r Registry,
    method: &Method,
    path: &str,
    query: &Query,
) -> Result<Route<'r>, Failure> {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(decoded)
        .collect();
    let segments_ref: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments_ref.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Route::Document(segments)),
    };
    if !registry
        .resources()
        .any(|r| r.group == group && r.version == version)
    {
        return Err(Failure::no_such_path());
    }
    if let ("", ["namespaces", _, "pods", _, act]) = (group, rest)
        && INTO_CONTAINERS.contains(act)
    {
        return Err(Failure::nothing_runs(act));
    }
    let place = place(registry, group, version, rest).ok_or_else(Failure::no_such_path)?;
    let verb = verb(method, &place, query)?;
    let target = Target {
        served: place.served,
        namespace: place.namespace,
        name: place.name,
    };
    Ok(Route::Resource(ResourceRoute {
        verb,
        target,
        subresource: place.subresource,
    }))
}

struct Place<'r> {
    served: &'r ServedResource,
    namespace: String,
    name: String,
    subresource: Option<Subresource>,
}

fn place<'r>(
    registry: &'r Registry,
    group: &str,
    version: &str,
    rest: &[&str],
) -> Option<Place<'r>> {
    let (namespace, rest) = match rest {
        ["namespaces", name, sub] if is_part_of_namespace(registry, sub) => {
            ("", ["namespaces", name, sub].to_vec())
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest.to_vec()),
        _ => ("", rest.to_vec()),
    };
    let (plural, name, sub) = match rest.as_slice() {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, sub] => (*plural, *name, *sub),
        _ => return None,
    };
    if (group, plural, name) == ("", "bindings", "") && !namespace.is_empty() {
        // The old path of the binding subresource: the pod is named in the body.
        return Some(Place {
            served: registry.find("", version, "pods")?,
            namespace: namespace.to_owned(),
            name: String::new(),
            subresource: Some(Subresource::Binding),
        });
    }
    let served = registry.find(group, version, plural)?;
    let subresource = match sub {
        "" => None,
        sub => Some(served.resource.subresource(sub)?),
    };
    // A namespaced object needs its namespace, and a cluster-scoped one has none.
    let misplaced = served.resource.namespaced && namespace.is_empty() && !name.is_empty()
        || !served.resource.namespaced && !namespace.is_empty();
    if misplaced {
        return None;
    }
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Some(Place {
        served,
        namespace,
        name,
        subresource,
    })
}

fn is_part_of_namespace(registry: &Registry, sub: &str) -> bool {
    let namespaces = registry.find("", "v1", "namespaces");
    namespaces.is_some_and(|served| served.resource.subresource(sub).is_some())
}

fn verb(method: &Method, place: &Place<'_>, query: &Query) -> Result<Verb, Failure> {
    let collection = place.name.is_empty();
    let acts = matches!(
        place.subresource,
        Some(Subresource::Binding | Subresource::Eviction | Subresource::Token)
    );
    let across = place.served.resource.namespaced && place.namespace.is_empty();
    match *method {
        Method::POST if acts => Ok(Verb::Create),
        _ if acts => Err(Failure::method_not_allowed()),
        Method::GET if query.flag("watch") && place.subresource.is_none() => Ok(Verb::Watch),
        Method::GET if collection => Ok(Verb::List),
        Method::GET => Ok(Verb::Get),
        Method::POST if collection && !across => Ok(Verb::Create),
        Method::PUT if !collection => Ok(Verb::Update),
        Method::PATCH if !collection && place.subresource != Some(Subresource::Finalize) => {
            Ok(Verb::Patch)
        }
        Method::DELETE if place.subresource.is_some() => Err(Failure::method_not_allowed()),
        Method::DELETE if !collection => Ok(Verb::Delete),
        Method::DELETE if !across && place.served.resource.kind != "Namespace" => {
            Ok(Verb::DeleteCollection)
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: &str) {
        let registry = Registry::new(Vec::new(), 10);
        let (method, path) = request.split_once(' ').unwrap();
        let method = method.parse().unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let found = match route(&registry, &method, path, &Query::parse(query)) {
            Ok(Route::Resource(route)) => {
                let info = route.info();
                format!(
                    "{} {} {}/{}",
                    info.verb, info.resource, info.namespace, info.name
                )
            }
            Ok(Route::Document(segments)) => format!("document {}", segments.join("/")),
            Err(failure) => failure.code.to_string(),
        };
        assert_eq!(found, expected, "{request}");
    }

    #[test]
    fn paths_lead_to_resources_and_subresources() {
        let get = |path: &str, expected| check(&format!("GET {path}"), expected);
        get("/api/v1/pods", "list pods /");
        get("/api/v1/pods?watch=1", "watch pods /");
        get("/api/v1/namespaces/ns/pods", "list pods ns/");
        get("/api/v1/namespaces/ns/pods/p", "get pods ns/p");
        get("/api/v1/namespaces/ns", "get namespaces /ns");
        get("/api/v1/namespaces/ns/status", "get namespaces/status /ns");
        get(
            "/apis/apps/v1/namespaces/ns/deployments/d/status",
            "get deployments/status.apps ns/d",
        );
        get(
            "/apis/coordination.k8s.io/v1/leases",
            "list leases.coordination.k8s.io /",
        );
        get("/api/v1/nodes/n%3A1", "get nodes /n:1");
        get("/version", "document version");
        get("/apis/apps/v1", "document apis/apps/v1");
        check(
            "POST /api/v1/namespaces/ns/pods/p/binding",
            "create pods/binding ns/p",
        );
        check(
            "POST /api/v1/namespaces/ns/bindings",
            "create pods/binding ns/",
        );
        check(
            "DELETE /api/v1/namespaces/ns/pods",
            "deletecollection pods ns/",
        );
    }

    #[test]
    fn what_is_not_served_is_not_found_and_what_makes_no_sense_is_not_allowed() {
        check("GET /api/v1/widgets", "404");
        check("GET /api/v1/pods/p", "404");
        check("GET /api/v1/namespaces/ns/nodes", "404");
        check(
            "GET /apis/apps/v1/namespaces/ns/deployments/d/binding",
            "404",
        );
        check(
            "POST /apis/networking.k8s.io/v1/namespaces/ns/ingresses",
            "404",
        );
        check("POST /api/v1/pods", "405");
        check("PUT /api/v1/namespaces/ns/pods", "405");
        check("GET /api/v1/namespaces/ns/pods/p/binding", "405");
        check("DELETE /api/v1/namespaces", "405");
        check("POST /api/v1/namespaces/ns/pods/p/exec", "501");
    }
}
