//! The timekeeper's answers to the budget sidecar: an accepted answer is passed on as JSON with every field.

use serde_json::Value;

use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Ok(told) = gpushare_sidecar::told(data) else {
        return Verdict::Refused;
    };
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    let fields = told.as_object().expect("an object");
    for field in [
        "remaining",
        "exhausted",
        "exhaustsAt",
        "overBudget",
        "evictAt",
        "observedAt",
    ] {
        assert!(fields.contains_key(field), "{field}");
    }
    assert_eq!(fields.get("stale"), Some(&Value::Bool(false)));
    Verdict::Accepted
}
