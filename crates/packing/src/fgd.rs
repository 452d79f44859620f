//! Fragmentation gradient descent, as published: Weng et al., "Beware of Fragmentation: Scheduling
//! GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023.
//!
//! A node's fragment is its free room minus what is usable for the typical pods. These are the most
//! frequent shapes that make up 95 % of all pods, including pods without cards (to them all free cards
//! are fragment). A placement scores `floor(100 * sigmoid(change / 1000))`, with the change in
//! thousandths of a card. The steps of that score matter: among nodes of equal score the first in order
//! is taken, which packs. The steps are a table here, so that no two machines round differently.

mod published;

use super::grain::GRAINS;
use super::mix::Mix;
use super::shape::Shape;
use super::usable::{ShapeGroups, WeightedShape};

pub(super) use published::Published;

/// The part of all pods that the typical pods make up, in percent.
const TYPICAL: i64 = 95;

/// The score of a placement that does not change the fragment.
pub(super) const UNCHANGED: i64 = 50;

/// The least change for a score of 51, 52, … 99, in billionths of a card: `10^9 ln(score / (100 -
/// score))`. Scores below 50 mirror them.
const STEPS: [i64; 49] = [
    40_005_335,
    80_042_708,
    120_144_312,
    160_342_650,
    200_670_695,
    241_162_057,
    281_851_152,
    322_773_392,
    363_965_377,
    405_465_108,
    447_312_218,
    489_548_225,
    532_216_814,
    575_364_145,
    619_039_208,
    663_294_217,
    708_185_058,
    753_771_802,
    800_119_300,
    847_297_860,
    895_384_047,
    944_461_609,
    994_622_575,
    1_045_968_555,
    1_098_612_289,
    1_152_679_510,
    1_208_311_206,
    1_265_666_373,
    1_324_925_415,
    1_386_294_361,
    1_450_010_176,
    1_516_347_489,
    1_585_627_264,
    1_658_228_077,
    1_734_601_055,
    1_815_289_967,
    1_900_958_761,
    1_992_430_165,
    2_090_741_097,
    2_197_224_577,
    2_313_634_929,
    2_442_347_035,
    2_586_689_344,
    2_751_535_313,
    2_944_438_979,
    3_178_053_830,
    3_476_098_690,
    3_891_820_298,
    4_595_119_850,
];

/// The typical pods of a mix.
pub(super) fn typical(mix: &Mix) -> ShapeGroups {
    let mut shapes: Vec<(i64, &Shape)> = mix
        .iter()
        .map(|(shape, seen)| (seen.count, shape))
        .collect();
    shapes.sort_unstable_by(|a, b| b.cmp(a));
    let all: i64 = shapes.iter().map(|(count, _)| count).sum();
    let mut covered = 0;
    ShapeGroups::new(
        shapes
            .into_iter()
            .take_while(|(count, _)| {
                let enough = i128::from(covered) * 100 >= i128::from(all) * i128::from(TYPICAL);
                covered += count;
                !enough
            })
            .map(|(count, shape)| WeightedShape {
                shape: *shape,
                weight: count,
                demand: 0,
            }),
    )
}

/// The score of a placement that takes `taken` grains and `usable_lost` usable grains times `weight`.
pub(super) fn score(taken: i64, usable_lost: i64, weight: i64) -> i64 {
    // The fragment before minus that after: the room taken minus the usable room lost.
    let change = i128::from(taken) * i128::from(weight) - i128::from(usable_lost);
    let scaled = change.abs() * 1_000_000_000;
    let steps = |reached: &dyn Fn(i128) -> bool| {
        let count = STEPS
            .iter()
            .take_while(|step| {
                reached(i128::from(**step) * i128::from(weight) * i128::from(GRAINS))
            })
            .count();
        i64::try_from(count).unwrap_or(0)
    };
    if change >= 0 {
        UNCHANGED + steps(&|step| scaled >= step)
    } else {
        UNCHANGED - 1 - steps(&|step| scaled > step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix::ONE;
    use super::*;

    #[test]
    fn the_score_is_the_published_sigmoid() {
        for milli in (-8_000_i32..=8_000).filter(|milli| milli % 7 == 0) {
            let published = (100.0 / (1.0 + (-f64::from(milli) / 1000.0).exp())).floor();
            let taken = i64::from(milli) * GRAINS;
            let ours = score(0, -taken, 1_000);
            assert!(
                (f64::from(i32::try_from(ours).unwrap()) - published).abs() < 0.5,
                "{milli}"
            );
        }
    }

    #[test]
    fn typical_pods_are_the_most_frequent_that_reach_the_limit() {
        let mut mix = Mix::default();
        for (cpu, times) in [(1, 90), (2, 6), (3, 4)] {
            for _ in 0..times {
                mix.observe(&Shape::without_cards(cpu, 0));
            }
        }
        assert_eq!(typical(&mix).weight, 96 * ONE);
    }
}
