//! Metrics of the API. Labels come from fixed sets; nothing is labelled by user, namespace or budget.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Answered, Counter>,
    denials: Family<Denied, Counter>,
    grants: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    route: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Denied {
    reason: &'static str,
}

impl Metrics {
    /// They are registered below `api`.
    pub fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("api");
        let requests = Family::default();
        let help = "Requests to the API of budgets, by route and code";
        registry.register("requests", help, requests.clone());
        let denials = Family::default();
        let help = "Requests that were refused because of who sent them, by reason";
        registry.register("denials", help, denials.clone());
        let grants = Counter::default();
        registry.register("grants", "Grants that were written", grants.clone());
        Self {
            requests,
            denials,
            grants,
        }
    }

    /// The route as it is declared, never as it was asked for.
    pub(super) fn answered(&self, route: &str, code: u16) {
        let route = route.to_owned();
        self.requests.get_or_create(&Answered { route, code }).inc();
    }

    pub(super) fn denied(&self, reason: &'static str) {
        self.denials.get_or_create(&Denied { reason }).inc();
    }

    pub(super) fn granted(&self) {
        self.grants.inc();
    }
}
