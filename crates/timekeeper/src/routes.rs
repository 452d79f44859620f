//! The HTTP face: the API of budgets, and what operators and probes ask.

use std::sync::Arc;

use axum::Router;
use gpushare_daemon::admin::Admin;

use super::Timekeeper;
use super::api::Api;

impl Timekeeper {
    /// Everything: the API of budgets, and what operators and probes ask.
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
