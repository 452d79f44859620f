use super::*;
use crate::model::tests::{add_node, empty, place, wait};

#[test]
fn idle_memory_in_pieces_smaller_than_the_usual_pod_is_not_usable() {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000]);
    add_node(&mut model, "b", &[10_000]);
    place(&mut model, "p", "a", 6000);
    place(&mut model, "q", "b", 4000);
    wait(&mut model, "r", 6000);
    let overview = overview(&model);
    assert_eq!(overview.usual, Some(6000));
    // The 4000 MiB on a are too few for the usual pod; the 6000 on b are just enough.
    assert_eq!(
        overview.all.idle,
        Level {
            used: 6000,
            size: 10_000
        }
    );
    assert_eq!(
        overview.all.memory,
        Level {
            used: 10_000,
            size: 20_000
        }
    );
    assert_eq!((overview.pods, overview.pending), (2, 1));
}

#[test]
fn without_pods_everything_idle_is_usable() {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000]);
    let overview = overview(&model);
    let idle = overview.all.idle;
    assert_eq!(idle.used, idle.size);
    assert_eq!(overview.usual, None);
}

#[test]
fn cards_are_counted_by_how_full_they_are() {
    let mut model = empty();
    add_node(&mut model, "a", &[10_000, 10_000]);
    place(&mut model, "p", "a", 10_000);
    let overview = overview(&model);
    assert_eq!(overview.fullness, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(overview.models.get("Tesla T4").unwrap().nodes, 1);
}
