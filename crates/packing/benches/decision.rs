//! How long the pure decision takes: `cargo bench -p gpushare-packing --bench decision`.
//!
//! On a busy machine use the `instructions` benchmark instead, which does not depend on other processes.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot be set up must stop"
)]

mod cluster;

use std::hint::black_box;

use cluster::{NODES, fleet, share, taught, whole, without_cards};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

fn decision(criterion: &mut Criterion) {
    let fleet_taught = taught();
    let mut group = criterion.benchmark_group("choose");
    for (name, shape) in [
        ("share", share()),
        ("whole-node", whole(8)),
        ("cpu-only", without_cards()),
    ] {
        assert!(fleet_taught.choose(&shape).is_some(), "{name} fits nowhere");
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(&fleet_taught).choose(black_box(&shape)));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("rank");
    for nodes in [NODES / 10, NODES] {
        group.bench_function(nodes.to_string(), |bencher| {
            bencher.iter(|| black_box(&fleet_taught).rank(black_box(&share()), 0..nodes));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("observe");
    let fleet_before = fleet();
    for (name, start) in [
        ("without-lesson", &fleet_taught),
        ("with-lesson", &fleet_before),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || start.clone(),
                |fleet| fleet.observe(black_box(&share())),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, decision);
criterion_main!(benches);
