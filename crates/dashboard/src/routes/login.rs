//! Logging in and out. The token is sent in a header, which a form of another site cannot set.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::guard::refused;
use super::refuse;
use crate::Dashboard;
use crate::access::Access;

pub(super) async fn log_in(State(dashboard): State<Dashboard>, headers: HeaderMap) -> Response {
    let Access::Tokens(tokens) = &dashboard.0.access else {
        return refuse(StatusCode::NOT_FOUND, "nobody needs to log in here");
    };
    match tokens.log_in(&headers).await {
        Ok(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        Err(refusal) => {
            dashboard.0.metrics.refused();
            refused(&refusal)
        }
    }
}

pub(super) async fn log_out(State(dashboard): State<Dashboard>, headers: HeaderMap) -> Response {
    let Access::Tokens(tokens) = &dashboard.0.access else {
        return refuse(StatusCode::NOT_FOUND, "nobody needs to log in here");
    };
    let cookie = tokens.log_out(&headers);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
