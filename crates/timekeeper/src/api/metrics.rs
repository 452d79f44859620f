//! Metrics of the API. Labels come from fixed sets; nothing is labelled by user, namespace or budget.

use gpushare_daemon::labels;
use gpushare_daemon::metrics::{Catalogue, Count, CountByReason};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Answered, Counter>,
    denials: CountByReason,
    grants: Counter,
}

labels!(Answered {
    route: String,
    code: u16,
});

impl Metrics {
    pub fn new(catalogue: &mut Catalogue) -> Self {
        Self {
            requests: catalogue.add(
                "api_requests",
                "Requests to the budget API, by route and code",
            ),
            denials: catalogue.add(
                "api_denials",
                "Requests refused by authentication or authorization, by reason",
            ),
            grants: catalogue.add("api_grants", "Grants that were written"),
        }
    }

    /// `route` is the route as declared, never the path as requested.
    pub(super) fn answered(&self, route: &str, code: u16) {
        let route = route.to_owned();
        self.requests.get_or_create(&Answered { route, code }).inc();
    }

    pub(super) fn denied(&self, reason: &'static str) {
        self.denials.count(reason);
    }

    pub(super) fn granted(&self) {
        self.grants.inc();
    }
}
