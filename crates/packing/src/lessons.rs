//! Lessons: the tables that a policy derives from the mix, recomputed from time to time.

use std::collections::BTreeMap;

use super::fgd;
use super::grain::GRAINS;
use super::mix::Mix;
use super::policy::{Measure, Policy};
use super::pool::{Pool, PoolSet, Pools};
use super::prices::Prices;
use super::scarcity::Dependence;
use super::shape::{Shape, Want};
use super::space::Space;
use super::stock::Stock;
use super::strand::Strand;
use super::usable::{ShapeGroups, WeightedShape};
use gpushare_core::amounts::Amounts;

/// How many shapes have their usable room tracked; the rest have too little weight to matter.
const MAX_SHAPES: usize = 64;
/// The total weight of all shapes; costs are in grains times this.
pub(super) const WEIGHT: i64 = 1 << 16;

/// What was learnt from the mix.
#[derive(Clone, Debug, Default)]
pub(super) struct Lessons {
    pub(super) usable: ShapeGroups,
    /// The part of the demand that needs several cards on one node, in [`WEIGHT`]ths.
    pub(super) several: i64,
    pub(super) strand: Strand,
    pub(super) dependence: Dependence,
    /// By pool index; pools of one size share their prices.
    pub(super) prices: Vec<Prices>,
    /// By pool index, for the stock at the last update.
    pub(super) scarcity: Vec<i64>,
}

/// The input of a lesson.
#[derive(Clone, Copy, Debug)]
pub(super) struct Material<'a> {
    pub(super) mix: &'a Mix,
    pub(super) pools: &'a Pools,
    pub(super) stock: &'a Stock,
}

impl Lessons {
    pub(super) fn learn<'a>(
        policy: &Policy,
        material: Material<'_>,
        spaces: &(impl Iterator<Item = &'a Space> + Clone),
    ) -> Self {
        let Material { mix, pools, stock } = material;
        if policy.uses(Measure::Fragmentation) {
            return Self {
                usable: fgd::typical(mix),
                ..Self::default()
            };
        }
        if !policy.uses(Measure::Cost) {
            return Self::default();
        }
        let dependence = Dependence::learn(mix, pools, stock);
        Self {
            usable: heaviest(material, spaces),
            several: several(material),
            strand: Strand::learn(mix, pools, stock),
            prices: prices(mix, pools),
            scarcity: dependence.scarcity(pools, stock),
            dependence,
        }
    }
}

/// The heaviest shapes. The weight is the count times the demand to the power of 3/4: by count alone
/// the rare pods that need whole nodes would not matter, by demand alone nothing else would. Models are
/// handled by the scarcity of pools.
fn heaviest<'a>(
    Material { mix, pools, stock }: Material<'_>,
    spaces: &(impl Iterator<Item = &'a Space> + Clone),
) -> ShapeGroups {
    let mut sums: BTreeMap<Shape, (i128, i128)> = BTreeMap::new();
    for (shape, seen) in mix.iter().filter(|(shape, _)| shape.cards > 0) {
        let anywhere = Shape {
            pools: PoolSet::ANY,
            ..*shape
        };
        let grains = stock.demand(pools, shape);
        let (weight, demand) = sums.entry(anywhere).or_default();
        *weight += i128::from(seen.count) * three_quarters(grains);
        *demand += i128::from(seen.count) * i128::from(grains);
    }
    let all: i128 = sums.values().map(|(_, demand)| demand).sum();
    let mut shapes: Vec<(i128, Shape, i128)> = sums
        .into_iter()
        .map(|(shape, (weight, demand))| (weight, shape, demand))
        .collect();
    shapes.sort_unstable_by(|a, b| b.cmp(a));
    shapes.truncate(MAX_SHAPES);
    let total: i128 = shapes.iter().map(|(weight, _, _)| weight).sum();
    let mut usable =
        ShapeGroups::new(
            shapes
                .into_iter()
                .map(|(weight, shape, demand)| WeightedShape {
                    shape,
                    weight: part(weight, total),
                    demand: part(demand, all),
                }),
        );
    usable.weight = WEIGHT;
    usable.favour_scarce(spaces, WEIGHT, stock.total().free);
    usable
}

fn several(Material { mix, pools, stock }: Material<'_>) -> i64 {
    let (mut several, mut all) = (0, 0);
    for (shape, seen) in mix.iter() {
        let demand = i128::from(seen.count) * i128::from(stock.demand(pools, shape));
        all += demand;
        several += if shape.cards > 1 { demand } else { 0 };
    }
    part(several, all)
}

fn part(some: i128, all: i128) -> i64 {
    i64::try_from(some * i128::from(WEIGHT) / all.max(1)).unwrap_or(0)
}

/// `1024 * demand^(3/4)`.
fn three_quarters(demand: i64) -> i128 {
    let demand = u128::from(demand.unsigned_abs()).min(1 << 28);
    let root = ((demand * demand * demand) << 40).isqrt().isqrt();
    i128::try_from(root).unwrap_or(0)
}

fn prices(mix: &Mix, pools: &Pools) -> Vec<Prices> {
    let mut known: Vec<(Amounts, Prices)> = Vec::new();
    for (_, pool) in pools.iter() {
        if !known.iter().any(|(capacity, _)| *capacity == pool.capacity) {
            known.push((pool.capacity, Prices::learn(pieces(mix, pool))));
        }
    }
    pools
        .iter()
        .filter_map(|(_, pool)| {
            known
                .iter()
                .find(|(capacity, _)| *capacity == pool.capacity)
        })
        .map(|(_, prices)| prices.clone())
        .collect()
}

/// The sizes of the shares requested of cards of this pool, and how often each is requested.
fn pieces(mix: &Mix, pool: &Pool) -> Vec<(i64, i64)> {
    let mut pieces: BTreeMap<i64, i64> = BTreeMap::new();
    for (shape, seen) in mix.iter() {
        if shape.cards > 0
            && matches!(shape.want, Want::Share(_))
            && let Some(size) = shape.size_on(pool).filter(|size| *size < GRAINS)
        {
            let times = seen.count.saturating_mul(i64::from(shape.cards)) >> 8;
            let sum = pieces.entry(size).or_default();
            *sum = sum.saturating_add(times);
        }
    }
    pieces.into_iter().collect()
}
