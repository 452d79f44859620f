//! The webhook on a real API server, in its own process, over TLS, configured by the files of `deploy/`. Run by
//! `cargo xtask e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod attacks;
mod failures;
mod holes;
mod rotation;
mod settings;
mod sidecar;

use std::sync::LazyLock;

use e2e::hook::Hook;
use serde_json::{Value, json};

/// One cluster for all tests that do not damage it. Each test works in its own namespaces.
static SHARED: LazyLock<Hook> = LazyLock::new(Hook::start);

fn assert_metered(pod: &Value) {
    let metering = json!(["gpushare.io/metering"]);
    assert_eq!(pod["metadata"]["finalizers"], metering);
}

/// What a pod's first container asks for.
fn limits(pod: &Value) -> Value {
    pod["spec"]["containers"][0]["resources"]["limits"].clone()
}
