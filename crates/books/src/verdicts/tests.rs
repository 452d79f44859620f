use gpushare_core::{Placement, Steps};
use gpushare_packing::Policy;

use super::*;
use crate::books::tests::{node, pending, reserve_on};
use crate::{Bells, Books};

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
const CARDS: [&[(&str, u64)]; 3] = [&[("GPU-a", 8), ("GPU-b", 4)], &[("GPU-a", 16)], &[]];

/// Numbers that look random and are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

fn something_happens(books: &mut Books, draw: &mut Draw) {
    let (name, uid) = (draw.one_of(&NODES), format!("u{}", draw.below(9)));
    let gib = 1 + draw.below(6) as u64;
    match draw.below(8) {
        0..=2 => drop(reserve_on(books, &uid, gib, name)),
        3..=4 => books.end_pod(&uid.as_str().into()),
        5 => books.apply_node(node(name, draw.one_of(&CARDS))),
        6 => books.delete_node(name),
        _ => {
            let ask = pending(&uid, gib).ask.unwrap().unwrap();
            let placement = Placement::on_one_card(&ask, &"GPU-a".into());
            let (pod, name) = (uid.as_str().into(), name.into());
            books.toggle_claim(&pod, &name, &ask, placement);
        }
    }
}

/// The answer for each node from the kept verdicts, and from the ledger.
fn both(books: &Books, gib: u64, names: &[&str]) -> [Vec<Option<String>>; 2] {
    let facts = pending("asking", gib);
    let ask = facts.ask.unwrap().unwrap();
    let steps = Steps::for_request();
    let search = books.ledger().search(&ask, &steps);
    let fit = books.ledger().fitting(&facts.uid, &search);
    let why = |name: &str| fit(name).err();
    let (verdicts, reasons) = books.verdicts(&ask, names.iter().copied(), why);
    let text = |place: usize| reasons.get(place).unwrap().text.clone();
    let kept = verdicts.iter().map(|verdict| verdict.map(text));
    let fresh = names
        .iter()
        .map(|name| Some(format!("gpushare: {}", why(name)?)));
    [kept.collect(), fresh.collect()]
}

#[test]
fn what_is_kept_is_what_the_ledger_says_whatever_happens_in_between() {
    let mut draw = Draw(1);
    let mut books = unlisted();
    for round in 0..3_000 {
        for _ in 0..draw.below(4) {
            something_happens(&mut books, &mut draw);
        }
        let mut names: Vec<&str> = NODES.into_iter().chain(["unknown"]).collect();
        names.rotate_left(draw.below(5));
        names.truncate(1 + draw.below(5));
        let gib = 1 + draw.below(20) as u64;
        let [kept, fresh] = both(&books, gib, &names);
        assert_eq!(kept, fresh, "round {round}, {gib} GiB on {names:?}");
    }
}

#[test]
fn a_node_that_did_not_change_is_not_judged_again() {
    let mut books = listed();
    let ask = pending("asking", 9).ask.unwrap().unwrap();
    let judged = |books: &Books| judged(books, &ask, |_| None);
    assert_eq!(judged(&books), NODES);
    reserve_on(&mut books, "u1", 1, "n3").unwrap();
    assert_eq!(judged(&books), ["n3"]);
    assert!(judged(&books).is_empty());
}

fn unlisted() -> Books {
    let classes = gpushare_core::gpu::classes();
    Books::new(classes, Policy::default(), Bells::default())
}

fn listed() -> Books {
    let mut books = unlisted();
    books.replace_nodes(NODES.map(|name| node(name, CARDS[0])).into());
    books.replace_pods(Vec::new(), &[]);
    books
}

/// Which nodes are judged, if `say` answers for each.
fn judged(books: &Books, ask: &PodAsk, say: impl Fn(&str) -> Option<Why>) -> Vec<String> {
    let judged = std::cell::RefCell::new(Vec::new());
    books.verdicts(ask, NODES.into_iter(), |name| {
        judged.borrow_mut().push(name.to_owned());
        say(name)
    });
    judged.into_inner()
}

/// A request of two containers, different for each number.
fn complex(number: u64) -> PodAsk {
    let one = |gib| pending("asking", gib).ask.unwrap().unwrap().containers[0].clone();
    PodAsk {
        containers: [one(1), one(2 + number)].into(),
    }
}

#[test]
fn however_many_complex_requests_come_ordinary_ones_are_remembered() {
    let books = listed();
    let ordinary = pending("asking", 9).ask.unwrap().unwrap();
    assert_eq!(judged(&books, &ordinary, |_| None), NODES);
    for number in 0..100 {
        assert_eq!(judged(&books, &complex(number), |_| None), NODES);
        assert!(judged(&books, &complex(number), |_| None).is_empty());
    }
    assert!(judged(&books, &ordinary, |_| None).is_empty());
    let kept = books.kept_verdicts().0.lock().kept_complex.len();
    assert_eq!(kept, KEPT_COMPLEX);
}

#[test]
fn a_node_that_was_not_reached_is_judged_at_the_next_try() {
    let books = listed();
    let not_reached = |name: &str| {
        (name == "n3").then(|| Why::NotReached {
            class: "gpu".into(),
            containers: 2,
            steps: 1,
        })
    };
    assert_eq!(judged(&books, &complex(0), not_reached), NODES);
    assert_eq!(judged(&books, &complex(0), |_| None), ["n3"]);
    assert!(judged(&books, &complex(0), |_| None).is_empty());
}
