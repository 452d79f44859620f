//! The checks that every request passes, and the headers that every answer carries.

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use super::refuse;
use crate::Dashboard;
use crate::access::{Access, Refusal};

/// Only our own files, nothing inline, no markup made from text, not in a frame of any site.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

pub(super) async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Without tokens the only protection is that other machines cannot reach this one's loopback. But a script of another
/// site in a local browser can, by a host name that resolves to loopback (DNS rebinding). Its request names that host.
pub(super) async fn only_this_host(
    State(dashboard): State<Dashboard>,
    request: Request,
    next: Next,
) -> Response {
    if matches!(dashboard.0.access, Access::Open) && !names_loopback(&request) {
        let message = "open the dashboard as http://127.0.0.1:PORT or http://localhost:PORT";
        return refuse(StatusCode::MISDIRECTED_REQUEST, message);
    }
    next.run(request).await
}

/// Pages of other sites may link to the dashboard and nothing else: they cannot read it, nor log a user in or out.
pub(super) async fn only_own_pages(request: Request, next: Next) -> Response {
    if foreign(&request) {
        let message = "this is for the dashboard's own page";
        return refuse(StatusCode::FORBIDDEN, message);
    }
    next.run(request).await
}

/// Browsers send `Sec-Fetch-*` headers, which scripts cannot change; other programs send none.
fn foreign(request: &Request) -> bool {
    let said = |name| {
        let value = request.headers().get(HeaderName::from_static(name));
        value.and_then(|value| value.to_str().ok())
    };
    let own = matches!(said("sec-fetch-site"), None | Some("same-origin" | "none"));
    let link = said("sec-fetch-mode") == Some("navigate") && request.method() == Method::GET;
    !own && !link
}

fn names_loopback(request: &Request) -> bool {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let authority = request.uri().authority().cloned();
    match authority.or(host).as_ref().map(Authority::host) {
        Some("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

pub(super) async fn only_viewers(
    State(dashboard): State<Dashboard>,
    request: Request,
    next: Next,
) -> Response {
    let Access::Tokens(tokens) = &dashboard.0.access else {
        return next.run(request).await;
    };
    match tokens.check(request.headers()).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            dashboard.0.metrics.refused();
            if wants_page(request.headers()) {
                return Redirect::to("/login").into_response();
            }
            refused(&refusal)
        }
    }
}

/// Whether a browser opens the page, rather than a program that calls the API.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT);
    accepted
        .and_then(|value| value.to_str().ok())
        .is_some_and(|text| text.contains("text/html"))
}

pub(super) fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::NoToken | Refusal::Unreadable | Refusal::Unknown => StatusCode::UNAUTHORIZED,
        Refusal::NotAllowed(_) => StatusCode::FORBIDDEN,
        Refusal::TooManyWrong => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unavailable(_) => StatusCode::BAD_GATEWAY,
    };
    refuse(status, &refusal.to_string())
}
