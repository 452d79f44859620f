//! Claims as they are written to pods.

use gpushare_core::preempt::{ClaimError, ClaimRecord, Evictor};
use gpushare_core::{CardId, Placement, Record, gpu};

use crate::common::ask;

fn placement() -> Placement {
    Placement::on_one_card(&ask(4), &CardId::new("GPU-1"))
}

fn claim() -> ClaimRecord {
    let room = Record::new("uid".into(), "n".into(), &gpu::classes(), &placement());
    ClaimRecord::new(room, vec!["victim".into()], Evictor::Gpushare, 12)
}

#[test]
fn a_claim_survives_a_round_trip_and_gives_its_placement() {
    let read = ClaimRecord::decode(&claim().encode()).unwrap();
    assert_eq!(read, claim());
    let verified = read.verify(&"uid".into(), &gpu::classes(), &ask(4));
    assert_eq!(verified, Ok(placement()));
}

#[test]
fn a_claim_of_another_pod_or_for_another_request_is_not_believed() {
    let other = claim().verify(&"other".into(), &gpu::classes(), &ask(4));
    assert!(matches!(other, Err(ClaimError::Record(_))), "{other:?}");
    let larger = ask(5);
    let larger = claim().verify(&"uid".into(), &gpu::classes(), &larger);
    assert!(matches!(larger, Err(ClaimError::Record(_))), "{larger:?}");
}

#[test]
fn what_cannot_be_read_says_so() {
    for text in ["", "{}", "[1]", r#"{"version":1}"#] {
        let error = ClaimRecord::decode(text).unwrap_err();
        assert!(matches!(error, ClaimError::Malformed(_)), "{error}");
    }
    let newer = claim()
        .encode()
        .replacen("\"version\":1", "\"version\":9", 1);
    assert_eq!(ClaimRecord::decode(&newer), Err(ClaimError::Version(9)));
}
