//! What is still held on a node: it reads back as written, and contains no pod twice.

use std::collections::BTreeSet;

use gpushare_core::{gpu, held};

use super::on_text;
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let classes = gpu::classes();
        let Ok(pods) = held::decode(&classes, text) else {
            return Verdict::Refused;
        };
        let ids: BTreeSet<_> = pods.iter().map(|held| &held.pod).collect();
        assert_eq!(ids.len(), pods.len(), "a pod is listed twice");
        let written = held::encode(&gpu::class(), &pods);
        assert_eq!(held::decode(&classes, &written), Ok(pods));
        Verdict::Accepted
    })
}
