//! The page's files, embedded in the program. A browser revalidates them each time, and gets them only if they changed.

use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest, Sha256};

use super::refuse;
use crate::Dashboard;
use crate::access::Access;

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($kind:ident $name:literal),* $(,)?) => {
        &[$(Asset {
            name: $name,
            kind: $kind,
            text: include_str!(concat!("../../assets/", $name)),
        }),*]
    };
}

static PAGE: &[Asset] = assets![HTML "index.html", HTML "login.html"];
static ASSETS: &[Asset] = assets![
    CSS "style.css",
    SVG "icon.svg",
    SCRIPT "main.js",
    SCRIPT "store.js",
    SCRIPT "dom.js",
    SCRIPT "format.js",
    SCRIPT "charts.js",
    SCRIPT "overview.js",
    SCRIPT "nodes.js",
    SCRIPT "node.js",
    SCRIPT "pending.js",
    SCRIPT "pod.js",
    SCRIPT "budgets.js",
    SCRIPT "login.js",
];
const SVG: &str = "image/svg+xml";

/// The digest of all files, so that a browser never mixes files of two versions. It is a weak tag, because it is the
/// same for a file and its compressed form.
static VERSION: LazyLock<HeaderValue> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for asset in PAGE.iter().chain(ASSETS) {
        digest.update(asset.text.as_bytes());
    }
    let digest = format!("W/\"{:x}\"", digest.finalize());
    HeaderValue::from_str(&digest).unwrap_or(HeaderValue::from_static("W/\"0\""))
});

pub(super) async fn page(headers: HeaderMap) -> Response {
    serve(PAGE, "index.html", &headers)
}

pub(super) async fn login_page(State(dashboard): State<Dashboard>, headers: HeaderMap) -> Response {
    match dashboard.0.access {
        Access::Tokens(_) => serve(PAGE, "login.html", &headers),
        Access::Open => Redirect::to("/").into_response(),
    }
}

pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    serve(ASSETS, &name, &headers)
}

fn serve(assets: &'static [Asset], name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = assets.iter().find(|asset| asset.name == name) else {
        return refuse(StatusCode::NOT_FOUND, "there is no such file");
    };
    let fresh = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::ETAG, VERSION.clone()),
    ];
    if headers.get(header::IF_NONE_MATCH) == Some(&*VERSION) {
        return (StatusCode::NOT_MODIFIED, fresh).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind))];
    (fresh, kind, asset.text).into_response()
}
