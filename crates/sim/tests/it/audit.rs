//! The audit must object to every kind of wrong decision; otherwise its silence proves nothing.

use gpushare_sim::audit::{Audit, Violation};
use gpushare_sim::trace::{Node, Pod};

fn node(name: &str, cards: usize, model: &str) -> Node {
    Node {
        name: name.to_owned(),
        cpu: 8_000,
        memory: 1_000,
        cards,
        model: model.to_owned(),
    }
}

fn pod(cards: u32, milli: i64) -> Pod {
    Pod {
        name: "pod".to_owned(),
        cpu: 1_000,
        memory: 100,
        cards,
        milli,
        models: Vec::new(),
    }
}

fn cluster() -> Audit {
    Audit::new(&[node("a", 2, "old"), node("b", 1, "new")])
}

/// Why a pod must not be on these cards of node a.
fn objection(audit: &mut Audit, pod: &Pod, cards: &[usize]) -> String {
    match audit.place(1, pod, 0, cards) {
        Err(Violation::Misplaced { reason, .. }) => reason,
        other => panic!("no objection: {other:?}"),
    }
}

#[test]
fn every_kind_of_misplacement_is_named() {
    let half_used = || {
        let mut audit = cluster();
        audit.place(0, &pod(1, 600), 0, &[0]).unwrap();
        audit
    };
    let greedy = |cpu, memory| Pod {
        cpu,
        memory,
        ..pod(1, 100)
    };
    let picky = Pod {
        models: vec!["new".to_owned()],
        ..pod(1, 100)
    };
    for (pod, cards, reason) in [
        (
            pod(1, 500),
            &[0][..],
            "has 600 of 1000 used on card 0, 500 more asked",
        ),
        (
            pod(2, 1_000),
            &[0, 1],
            "has 600 of 1000 used on card 0, 1000 more asked",
        ),
        (pod(1, 100), &[2], "has no card 2"),
        (pod(2, 100), &[1, 1], "gave card 1 twice"),
        (pod(2, 100), &[1], "gave 1 cards instead of 2"),
        (pod(1, 100), &[], "gave 0 cards instead of 1"),
        (greedy(7_001, 1), &[1], "lacks CPU"),
        (greedy(1, 901), &[1], "lacks memory"),
        (picky, &[1], "is of model old"),
    ] {
        assert_eq!(objection(&mut half_used(), &pod, cards), reason);
    }
}

#[test]
fn a_pod_that_fits_somewhere_may_not_be_dropped() {
    let mut audit = cluster();
    audit.place(0, &pod(2, 1_000), 0, &[0, 1]).unwrap();
    let dropped = audit.drop(&pod(1, 1_000));
    assert_eq!(
        dropped,
        Err(Violation::Dropped {
            pod: "pod".to_owned(),
            node: "b".to_owned()
        })
    );
    audit.place(1, &pod(1, 1), 1, &[0]).unwrap();
    assert_eq!(audit.drop(&pod(1, 1_000)), Ok(()));
}

#[test]
fn nobody_leaves_where_he_is_not() {
    let mut audit = cluster();
    audit.place(0, &pod(1, 500), 0, &[0]).unwrap();
    assert!(matches!(audit.leave(0, 1), Err(Violation::Absent { .. })));
    assert_eq!(audit.leave(0, 0), Ok(()));
    assert!(matches!(audit.leave(0, 0), Err(Violation::Absent { .. })));
    assert_eq!(audit.leave(0, 9), Err(Violation::NoSuchNode(9)));
}

#[test]
fn a_wrong_belief_about_what_is_free_is_found() {
    let mut audit = cluster();
    audit.place(0, &pod(1, 400), 0, &[1]).unwrap();
    assert_eq!(audit.compare(0, 7_000, 900, &[1_000, 600]), Ok(()));
    for (cpu, memory, cards) in [
        (7_001, 900, &[1_000, 600][..]),
        (7_000, 899, &[1_000, 600]),
        (7_000, 900, &[600, 1_000]),
        (7_000, 900, &[1_000]),
    ] {
        let found = audit.compare(0, cpu, memory, cards);
        assert!(matches!(found, Err(Violation::Disagreement { .. })));
    }
}
