//! The HTTP endpoints: the API of budgets, and those for operators and probes.

use std::sync::Arc;

use axum::Router;
use gpushare_daemon::admin::Admin;

use super::Timekeeper;
use super::api::Api;

impl Timekeeper {
    /// All endpoints: the API of budgets, and those for operators and probes.
    pub fn router(&self) -> Router {
        let (ledger, client) = (self.ledger().clone(), self.client().clone());
        let api = Api::new(self.clone(), ledger, client, self.0.metrics.api.clone());
        api.router().merge(self.admin_router())
    }

    pub fn admin_router(&self) -> Router {
        let ready = self.clone();
        Admin {
            version: env!("CARGO_PKG_VERSION"),
            registry: self.0.metrics.registry(),
            ready: Arc::new(move || ready.ready()),
        }
        .router()
    }
}
