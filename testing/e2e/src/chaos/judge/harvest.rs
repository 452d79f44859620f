//! Whether there was anything to judge: where nothing happened, everything holds.

/// How much of what the judges look at there was with one seed.
#[derive(Clone, Copy, Debug)]
pub struct Harvest {
    /// Pods that were bound with a record.
    pub bound: usize,
    /// Pods that were seen running on cards.
    pub ran: usize,
    /// Metered pods in the ledger; nothing where the plan promises none.
    pub charged: Option<usize>,
    /// Requests on their way to the API server.
    pub requests: usize,
}

/// Everything of which there was nothing.
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
