//! Grants: an accepted grant has a name that is safe anywhere, a reason in one line, and a positive amount.

use gpushare_ledger::money::Amount;
use gpushare_timekeeper::api::wanted::Wanted;

use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    let parsed = Wanted::parse(data);
    if let Ok(wanted) = &parsed {
        assert!(wanted.amount > Amount::ZERO);
        let most = Amount::from_seconds(1_000_000_000_000).expect("it fits");
        assert!(wanted.amount <= most, "{wanted:?}");
        assert!((1..=128).contains(&wanted.id.len()) && wanted.id.is_ascii());
        assert!(!wanted.id.contains(['/', ' ', '"']), "{wanted:?}");
        assert!(!wanted.reason.trim().is_empty() && wanted.reason.lines().count() == 1);
    }
    Verdict::of(&parsed)
}
