//! Grants: an accepted grant has a name that is safe anywhere, a reason in one line, and a positive amount.

use gpushare_ledger::money::Amount;
use gpushare_timekeeper::api::grant_request::GrantRequest;

use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    let parsed = GrantRequest::parse(data);
    if let Ok(request) = &parsed {
        assert!(request.amount > Amount::ZERO);
        let most = Amount::from_seconds(1_000_000_000_000).expect("it fits");
        assert!(request.amount <= most, "{request:?}");
        assert!((1..=128).contains(&request.id.len()) && request.id.is_ascii());
        assert!(!request.id.contains(['/', ' ', '"']), "{request:?}");
        assert!(!request.reason.trim().is_empty() && request.reason.lines().count() == 1);
    }
    Verdict::of(&parsed)
}
