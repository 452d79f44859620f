//! A campaign against the books on a real cluster; `cargo xtask chaos` runs it with other seeds and for longer.

use e2e::chaos::campaign;
use e2e::setting;

/// The seeds that CI runs, for a minute of injections each.
const FIRST: u64 = 1;
const SEEDS: u64 = 2;
const MINUTES: u64 = 1;

#[test]
fn whatever_dies_is_late_or_lost_the_books_are_what_runs_and_what_is_charged() {
    let first = setting("GPUSHARE_CHAOS_SEED", FIRST);
    let seeds = setting("GPUSHARE_CHAOS_SEEDS", SEEDS);
    let minutes = setting("GPUSHARE_CHAOS_MINUTES", MINUTES);
    let seeds: Vec<u64> = (first..first + seeds).collect();
    campaign::run(&seeds, minutes);
}
