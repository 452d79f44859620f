//! Claims on room: they read back as written, and hold room for their own pod only.

use gpushare_core::gpu;
use gpushare_core::preempt::ClaimRecord;

use super::on_text;
use super::record::{POD, ask, check_placement};
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let Ok(claim) = ClaimRecord::decode(text) else {
            return Verdict::Refused;
        };
        assert_eq!(ClaimRecord::decode(&claim.encode()), Ok(claim.clone()));
        let (classes, wanted) = (gpu::classes(), ask(3072, 2));
        let Ok(placement) = claim.verify(&POD.into(), &classes, &wanted) else {
            return Verdict::Refused;
        };
        check_placement(&placement, &wanted);
        let holds = |pod: &str, memory, cards| {
            let verified = claim.verify(&pod.into(), &classes, &ask(memory, cards));
            verified.is_ok()
        };
        assert!(!holds("another-pod", 3072, 2), "another pod");
        assert!(!holds(POD, 3073, 2), "another amount");
        assert!(!holds(POD, 3072, 1), "another number of cards");
        Verdict::Accepted
    })
}
