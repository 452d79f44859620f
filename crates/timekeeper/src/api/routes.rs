//! Which handler answers which path.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{FromRequestParts, MatchedPath, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde::Deserialize;

use super::problem::Problem;
use super::{Api, balance, export, grants, legacy, openapi, statement};

/// A method of a path, and its handler.
struct Route {
    method: &'static str,
    path: &'static str,
    answered: fn() -> MethodRouter<Api>,
}

const fn route(
    method: &'static str,
    path: &'static str,
    answered: fn() -> MethodRouter<Api>,
) -> Route {
    Route {
        method,
        path,
        answered,
    }
}

/// All routes; [`openapi`] describes each of them.
const ROUTES: &[Route] = &[
    route("get", "/v1/namespaces/{namespace}/budget", || {
        get(balance::of_namespace)
    }),
    route("get", "/v1/namespaces/{namespace}/pods/{pod}", || {
        get(balance::of_pod)
    }),
    route("get", "/v1/namespaces/{namespace}/statement", || {
        get(statement::of_namespace)
    }),
    route("get", "/v1/budgets", || get(balance::of_all)),
    route("get", "/v1/budgets/{budget}", || get(balance::of_budget)),
    route("get", "/v1/budgets/{budget}/statement", || {
        get(statement::of_budget)
    }),
    route("post", "/v1/budgets/{budget}/grants", || {
        post(grants::grant)
    }),
    route("get", "/v1/export", || get(export::export)),
    route("get", "/budget/{namespace}", || get(legacy::budget)),
    route("post", "/budget/{namespace}/report", || {
        post(legacy::report)
    }),
    route("post", "/budget/{namespace}/increase", || {
        post(legacy::increase)
    }),
    route("get", "/openapi.json", || get(openapi::serve)),
];

/// Every method with its path.
pub fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.method, route.path))
}

impl Api {
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for route in ROUTES {
            router = router.route(route.path, (route.answered)());
        }
        router
            .fallback(async || StatusCode::NOT_FOUND)
            .layer(from_fn_with_state(self.clone(), accounted))
            .with_state(self.clone())
    }
}

/// Counts the request, and makes sure that every refusal is JSON.
async fn accounted(State(api): State<Api>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    let status = response.status();
    let json = HeaderValue::from_static("application/json");
    let refused = status.is_client_error() || status.is_server_error();
    if refused && response.headers().get(header::CONTENT_TYPE) != Some(&json) {
        response = Problem::of_status(status).into_response();
    }
    let route = matched.as_ref().map_or("other", MatchedPath::as_str);
    api.0.metrics.answered(route, status.as_u16());
    // No proxy may cache what one caller is allowed to see.
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The names in a path; those that it does not have are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Names {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) budget: String,
}

impl FromRequestParts<Api> for Names {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<Self>::from_request_parts(parts, api).await;
        let Path(names) = path.map_err(|error| Problem::invalid("the path", error))?;
        for (field, name) in [
            ("namespace", &names.namespace),
            ("pod", &names.pod),
            ("budget", &names.budget),
        ] {
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
            if name.len() > 253 || !name.bytes().all(plain) {
                let message = "no object of Kubernetes has such a name";
                return Err(Problem::invalid(field, message));
            }
        }
        Ok(names)
    }
}

/// The parameters of a request.
pub(super) struct Parameters(BTreeMap<String, String>);

impl FromRequestParts<Api> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let query = Query::<BTreeMap<String, String>>::from_request_parts(parts, api).await;
        let Query(parameters) = query.map_err(|error| Problem::invalid("the query", error))?;
        Ok(Self(parameters))
    }
}

impl Parameters {
    /// Refuses unknown parameters, which would otherwise be ignored.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let message = format!(
                    "there is no such parameter here; write {}",
                    known.join(", ")
                );
                Err(Problem::invalid(name, message))
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
