//! The policy learns from each pod once and before it decides for it, whether watch or scheduler shows the pod first.

use super::*;

const NODES: u64 = 12;
const PODS: u64 = 400;

/// The nodes chosen for a sequence of pods; `show` runs before each decision, and `after` after it.
fn nodes_chosen(show: fn(&mut Books, &PodFacts), after: fn(&mut Books, &PodFacts)) -> Vec<String> {
    let mut books = books(&[]);
    let card = |node: u64, index: u64| format!("GPU-{node}-{index}");
    for number in 0..NODES {
        let cards: Vec<String> = (0..4).map(|index| card(number, index)).collect();
        let cards: Vec<(&str, u64)> = cards.iter().map(|id| (id.as_str(), 16)).collect();
        books.apply_node(node(&format!("node-{number}"), &cards));
    }
    let mut chosen = Vec::new();
    for number in 0..PODS {
        let facts = pending(&format!("u{number}"), gib_of(number));
        show(&mut books, &facts);
        let ask = facts.ask.clone().unwrap().unwrap();
        let best = books.nodes().best(Some(&ask), facts.host, |_| true);
        let best = best.map(str::to_owned);
        after(&mut books, &facts);
        match &best {
            Some(node) => {
                let pod = named(facts.uid.as_str());
                let (node, unit) = (node.as_str().into(), AliyunUnit::GiB);
                books.reserve(&pod, &ask, &node, unit, 1).unwrap();
                books.bound(&facts.uid);
            }
            None => books.end_pod(&facts.uid),
        }
        // Makes room for others, so that the policy has to keep choosing.
        if number % 3 == 2 {
            books.end_pod(&format!("u{}", number / 2).as_str().into());
        }
        chosen.extend(best);
    }
    assert!(chosen.len() > 200, "{} pods got a node", chosen.len());
    chosen
}

/// Many small pods at first, larger ones later.
fn gib_of(pod: u64) -> u64 {
    let sizes = [2, 3, 5, 2, 7, 6, 11, 5, 13, 16];
    let place = pod.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
    let place = usize::try_from(place + pod * 10 / PODS).unwrap() / 3;
    sizes[place.min(9)]
}

fn nothing(_: &mut Books, _: &PodFacts) {}

fn watch(books: &mut Books, pod: &PodFacts) {
    books.apply_pod(pod.clone());
}

fn request(books: &mut Books, pod: &PodFacts) {
    assert!(books.is_news(pod));
    books.meet(pod);
    assert!(!books.is_news(pod));
}

fn requests(books: &mut Books, pod: &PodFacts) {
    for _ in 0..3 {
        books.meet(pod);
    }
}

/// A list older than all binds, which therefore remain booked.
fn list(books: &mut Books, pod: &PodFacts) {
    books.replace_pods(vec![pod.clone()], &[]);
}

fn watch_and_requests(books: &mut Books, pod: &PodFacts) {
    watch(books, pod);
    requests(books, pod);
}

#[test]
fn a_pod_that_the_scheduler_shows_first_is_judged_as_if_the_watch_had() {
    let by_watch = nodes_chosen(watch, nothing);
    assert_eq!(nodes_chosen(request, watch), by_watch);
    assert_eq!(nodes_chosen(requests, watch_and_requests), by_watch);
    assert_eq!(nodes_chosen(watch_and_requests, requests), by_watch);
    assert_eq!(nodes_chosen(request, list), by_watch);
    let too_late = nodes_chosen(nothing, watch);
    assert_ne!(too_late, by_watch, "here it does not matter who is first");
}

#[test]
fn who_has_ended_teaches_nothing_when_a_late_request_shows_it() {
    let mut books = books(&[(CARD, 8)]);
    let facts = pending("u1", 3);
    watch(&mut books, &facts);
    books.end_pod(&facts.uid);
    assert!(!books.is_news(&facts));
    watch(&mut books, &pending("u2", 3));
    books.replace_pods(Vec::new(), &[]);
    assert!(!books.is_news(&pending("u2", 3)));
}

#[test]
fn pods_that_never_appear_are_forgotten_the_oldest_first() {
    let mut books = books(&[(CARD, 8)]);
    let facts = |number: usize| pending(&format!("u{number}"), 3);
    for number in 0..3_000 {
        request(&mut books, &facts(number));
    }
    let forgotten = (0..3_000).filter(|number| books.is_news(&facts(*number)));
    assert_eq!(
        forgotten.collect::<Vec<_>>(),
        (0..1_976).collect::<Vec<_>>()
    );
}

#[test]
fn nothing_is_learned_from_invalid_requests_nor_before_all_is_listed() {
    let mut books = Books::new(gpu::classes(), Policy::default(), Bells::default());
    assert!(!books.is_news(&pending("u1", 3)));
    books.replace_nodes(vec![node(NODE, &[(CARD, 8)])]);
    books.replace_pods(Vec::new(), &[]);
    assert!(books.is_news(&pending("u1", 3)));
    let invalid = pending("u2", 0);
    assert!(invalid.ask.is_err());
    assert!(!books.is_news(&invalid));
}
