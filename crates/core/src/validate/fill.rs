//! Resources that a container may leave out because only one value makes sense.

use std::sync::Arc;

use crate::dialect::Dialects;

use super::{ContainerView, read};

/// The value that is filled in if a required card count is missing.
pub const ONE_CARD: &str = "1";

/// The required counts that the container left out although it names a part of a card. Each of them means
/// one card.
pub fn left_out<'a>(
    dialects: &'a Dialects,
    container: &ContainerView<'_>,
) -> impl Iterator<Item = &'a Arc<str>> {
    dialects.dialects.iter().filter_map(move |dialect| {
        let count = dialect.count.as_ref().filter(|count| count.required)?;
        let mut parts = dialect.parts.iter();
        let asks = parts.any(|part| read::written(dialect, container, part).is_some());
        (asks && container.limit(&count.resource).is_none()).then_some(&count.resource)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{self, AliyunUnit, Reading};
    use crate::request::Role;

    fn check(limits: &[(&str, &str)], expected: &[&str]) {
        let dialects = gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        });
        let container = ContainerView {
            name: "c",
            role: Role::App,
            index: 0,
            limits: limits.to_vec(),
        };
        let filled: Vec<&str> = left_out(&dialects, &container)
            .map(|name| &**name)
            .collect();
        assert_eq!(filled, expected, "{limits:?}");
    }

    #[test]
    fn memory_or_compute_without_a_count_means_one_card() {
        check(&[("gpushare.io/gpu-mem", "3072")], &["gpushare.io/gpu"]);
        check(&[("gpushare.io/gpu-core", "30")], &["gpushare.io/gpu"]);
        check(&[("nvidia.com/gpumem", "3000")], &["nvidia.com/gpu"]);
    }

    #[test]
    fn a_count_that_is_there_or_not_needed_is_left_alone() {
        check(
            &[("gpushare.io/gpu-mem", "1"), ("gpushare.io/gpu", "2")],
            &[],
        );
        check(
            &[("gpushare.io/gpu-mem", "1"), ("gpushare.io/gpu", "0")],
            &[],
        );
        check(&[("aliyun.com/gpu-mem", "3")], &[]);
        check(&[("tencent.com/vcuda-core", "100")], &[]);
        check(&[("cpu", "1")], &[]);
    }

    #[test]
    fn what_says_nothing_asks_for_no_card() {
        check(&[("nvidia.com/gpumem", "0")], &[]);
    }
}
