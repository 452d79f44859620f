use std::sync::Arc;

use super::*;
use crate::why::{Obstacles, Shortage, TooLittle};

fn room(needed: u64, most: u64) -> Why {
    Why::Blocked {
        class: "gpu".into(),
        by: Obstacles {
            room: true,
            ..Obstacles::default()
        },
        short: Shortage::Amount(TooLittle {
            wanted: 1,
            dimension: "memory".into(),
            unit: "MiB".into(),
            needed,
            most,
        }),
        outlived: false,
    }
}

fn cards(class: &str, there: u32) -> Why {
    Why::TooSmall {
        class: class.into(),
        short: Shortage::Cards { wanted: 4, there },
    }
}

fn explain(reasons: Vec<Option<Why>>) -> Explanation {
    let mut tally = Tally::default();
    for (number, why) in reasons.into_iter().enumerate() {
        let name = NodeName::new(format!("n{number:04}"));
        tally.add(&name, why.map_or(Ok(()), Err));
    }
    tally.finish()
}

#[test]
fn nodes_are_grouped_and_the_best_number_is_told() {
    let mut reasons: Vec<Option<Why>> = (1..=12).map(|n| Some(room(3072, n * 100))).collect();
    reasons.extend([Some(cards("gpu", 1)), Some(cards("gpu", 2))]);
    reasons.push(Some(Why::NoCards {
        class: "gpu".into(),
    }));
    assert_eq!(
        explain(reasons).to_string(),
        "12 nodes: no card has 3072 MiB of memory free, the most is 1200; \
         2 nodes: 4 cards needed, the node has up to 2; \
         1 node: no gpu cards published (is the gpushare node agent running there?)"
    );
}

#[test]
fn where_the_need_differs_from_card_to_card_the_nearest_counts() {
    let reasons = vec![Some(room(8000, 4000)), Some(room(4000, 3000))];
    let text = explain(reasons).to_string();
    assert_eq!(
        text,
        "2 nodes: no card has 4000 MiB of memory free, the most is 3000"
    );
}

#[test]
fn what_fits_is_said_first_and_nothing_known_is_said_too() {
    let some = explain(vec![None, Some(cards("gpu", 2)), None]).to_string();
    assert_eq!(
        some,
        "2 nodes: can take the pod; 1 node: 4 cards needed, the node has 2"
    );
    assert_eq!(explain(Vec::new()).to_string(), "no node is known");
}

#[test]
fn a_text_stays_short_enough_for_an_event_and_counts_what_it_leaves_out() {
    let classes = (0..60).map(|number| Some(cards(&"x".repeat(number), 1)));
    let text = explain(classes.collect()).to_string();
    assert!(text.len() <= 1024, "{}", text.len());
    let (_, end) = text.rsplit_once("; ").unwrap();
    let left: usize = end.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(end, format!("{left} nodes: other reasons"));
    assert_eq!(text.matches("4 cards needed").count() + left, 60);
}

#[test]
fn names_are_few_and_those_that_lack_least_come_first() {
    let reasons = (0..100).map(|number| Some(room(1000, number))).collect();
    let explanation = explain(reasons);
    let nodes = &explanation.groups[0].nodes;
    assert_eq!((nodes.count, nodes.names.len()), (100, MOST_NAMED));
    assert_eq!(nodes.names[0].as_str(), "n0099");
}

#[test]
fn how_much_room_there_is_splits_no_group_where_room_is_not_missing() {
    let choice = |most| Why::Blocked {
        class: Arc::from("gpu"),
        by: Obstacles {
            choice: true,
            ..Obstacles::default()
        },
        short: match room(9, most) {
            Why::Blocked { short, .. } => short,
            _ => unreachable!("room is a blockade"),
        },
        outlived: false,
    };
    let explanation = explain(vec![Some(choice(1)), Some(choice(2))]);
    assert_eq!(
        explanation.to_string(),
        "2 nodes: the pod's selectors exclude the cards that have room"
    );
    assert!(explanation.groups[0].same);
}
