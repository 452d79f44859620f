//! Lessons: the tables that a policy derives from the mix, drawn again from time to time.

use super::fgd;
use super::grain::GRAINS;
use super::mix::Mix;
use super::policy::{Measure, Policy};
use super::pool::Pools;
use super::prices::Prices;
use super::scarcity::Dependence;
use super::shape::{Shape, Want};
use super::stock::Stock;
use super::strand::Strand;
use super::usable::Usable;

/// Shapes whose usable room is followed; the rest have too little weight to matter.
const MAX_SHAPES: usize = 64;
/// The weight of all shapes: costs are in grains times this.
pub(super) const WEIGHT: i64 = 1 << 16;

/// What the mix taught.
#[derive(Clone, Debug, Default)]
pub(super) struct Lessons {
    pub(super) usable: Usable,
    pub(super) strand: Strand,
    pub(super) dependence: Dependence,
    /// By pool index; pools of one size share their prices.
    pub(super) prices: Vec<Prices>,
    /// By pool index, for the stock at the last look.
    pub(super) scarcity: Vec<i64>,
}

impl Lessons {
    pub(super) fn learn(policy: &Policy, mix: &Mix, pools: &Pools, stock: &Stock) -> Self {
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
            usable: weighted(mix, pools, stock),
            strand: Strand::learn(mix, pools, stock),
            prices: prices(mix, pools),
            scarcity: dependence.scarcity(pools, stock),
            dependence,
        }
    }
}

/// The heaviest shapes. Weight is count times demand to the power of 3/4: by count alone the rare pods
/// that need whole nodes would not be seen, by demand alone nothing else would.
fn weighted(mix: &Mix, pools: &Pools, stock: &Stock) -> Usable {
    let mut shapes: std::collections::BTreeMap<Shape, i128> = std::collections::BTreeMap::new();
    for (shape, seen) in mix.iter().filter(|(shape, _)| shape.cards > 0) {
        let any = Shape {
            pools: super::pool::PoolSet::ANY,
            ..*shape
        };
        let weight = i128::from(seen.count) * three_quarters(stock.demand(pools, shape));
        *shapes.entry(any).or_default() += weight;
    }
    let mut shapes: Vec<(i128, Shape)> = shapes
        .into_iter()
        .map(|(shape, weight)| (weight, shape))
        .collect();
    shapes.sort_unstable_by(|a, b| b.cmp(a));
    shapes.truncate(MAX_SHAPES);
    let total: i128 = shapes.iter().map(|(weight, _)| weight).sum();
    let mut usable = Usable::new(shapes.into_iter().map(|(weight, shape)| {
        let part = weight * i128::from(WEIGHT) / total.max(1);
        (shape, i64::try_from(part).unwrap_or(0))
    }));
    usable.weight = WEIGHT;
    usable
}

/// `1024 * demand^(3/4)`.
fn three_quarters(demand: i64) -> i128 {
    let demand = u128::from(demand.unsigned_abs()).min(1 << 28);
    let root = ((demand * demand * demand) << 40).isqrt().isqrt();
    i128::try_from(root).unwrap_or(0)
}

fn prices(mix: &Mix, pools: &Pools) -> Vec<Prices> {
    let mut known: Vec<(crate::amounts::Amounts, Prices)> = Vec::new();
    pools
        .iter()
        .map(|(_, pool)| {
            if let Some((_, prices)) = known
                .iter()
                .find(|(capacity, _)| *capacity == pool.capacity)
            {
                return prices.clone();
            }
            let mut demand: std::collections::BTreeMap<i64, i64> =
                std::collections::BTreeMap::new();
            for (shape, seen) in mix.iter() {
                if shape.cards > 0
                    && matches!(shape.want, Want::Share(_))
                    && let Some(size) = shape.want.size_on(pool).filter(|size| *size < GRAINS)
                {
                    let pieces = seen.count.saturating_mul(i64::from(shape.cards)) >> 8;
                    let entry = demand.entry(size).or_default();
                    *entry = entry.saturating_add(pieces);
                }
            }
            let prices = Prices::learn(demand.into_iter().collect());
            known.push((pool.capacity, prices.clone()));
            prices
        })
        .collect()
}
