//! Prioritize over HTTP, beside decoding the same body and encoding an answer of the same size.

use anyhow::Result;

use super::verb::Verb;
use crate::lab::Lab;
use crate::objects::{self, ASKED_GIB};
use crate::report::{Limit, PROFILE, Row};

pub(super) fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    [
        ("prioritize, 5,000 names", objects::NODES),
        ("prioritize, 500 names", 500),
    ]
    .into_iter()
    .map(|(name, count)| {
        let measured = Verb::Prioritize.measure(cluster, count, &ASKED_GIB)?;
        Ok(Row::time(name, measured.value, measured.floor)
            .limit(Limit::RatioAtMost(2.0))
            .excuse(PROFILE))
    })
    .collect()
}
