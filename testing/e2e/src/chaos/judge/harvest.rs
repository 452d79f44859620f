//! Whether there was anything to check: where nothing happened, every rule holds.

/// How much there was to check with one seed.
#[derive(Clone, Copy, Debug)]
pub struct Harvest {
    /// Pods that were bound with a record.
    pub bound: usize,
    /// Pods that were seen running on cards.
    pub ran: usize,
    /// Metered pods in the ledger; `None` if the plan does not guarantee any.
    pub charged: Option<usize>,
    /// Requests that were sent to the API server.
    pub requests: usize,
}

/// A sentence for every kind of event that never happened.
pub fn barren(harvest: Harvest) -> Vec<String> {
    let none = [
        (harvest.bound == 0, "no pod was bound with a record"),
        (harvest.ran == 0, "no pod was seen running on a card"),
        (
            harvest.charged == Some(0),
            "no metered pod is in the ledger",
        ),
        (harvest.requests == 0, "the proxy saw no request"),
    ];
    let none = none.into_iter().filter(|(none, _)| *none);
    none.map(|(_, what)| format!("nothing was judged: {what}"))
        .collect()
}
