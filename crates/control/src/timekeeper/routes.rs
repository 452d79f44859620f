//! The HTTP face for operators and probes.

use std::sync::Arc;

use axum::Router;
use gpushare_daemon::admin::Admin;

use super::Timekeeper;

impl Timekeeper {
    pub fn admin_router(&self) -> Router {
        let ready = self.clone();
        Admin {
            version: env!("CARGO_PKG_VERSION"),
            registry: self.0.metrics.registry(),
            ready: Arc::new(move || ready.view().ready()),
        }
        .router()
    }
}
