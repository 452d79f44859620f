use serde_json::json;

use super::*;
use crate::selector::LabelSelector;

fn config(name: &str, app: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "labels": {"app": app}}})
}

fn store(limit: usize) -> (Store, TableId) {
    let mut store = Store::new(100, limit);
    let table = store.add_table();
    (store, table)
}

fn select(app: &str) -> Filter {
    let labels = LabelSelector::parse(&format!("app={app}")).unwrap();
    Filter {
        namespace: Some("ns".to_owned()),
        labels,
        ..Filter::default()
    }
}

fn watch_after(store: &mut Store, table: TableId, version: u64) -> Result<Watch, OutOfReach> {
    store.watch(table, Filter::default(), Start::After(version))
}

fn lines(watch: &mut Watch) -> Vec<(String, String, u64)> {
    let mut seen = std::mem::take(&mut watch.missed);
    while let Ok(delivery) = watch.subscription.queue.try_recv() {
        seen.push(delivery);
    }
    seen.iter()
        .map(|delivery| {
            let line: Value = serde_json::from_slice(&delivery.line(None)).unwrap();
            let version = line.text("object.metadata.resourceVersion");
            let version = version.parse().unwrap();
            let app = line.text("object.metadata.labels.app").to_owned();
            (line.text("type").to_owned(), app, version)
        })
        .collect()
}

fn said(kind: &str, app: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), app.to_owned(), version)
}

#[test]
fn every_write_takes_the_next_version_across_tables() {
    let (mut store, first) = store(10);
    let second = store.add_table();
    assert_eq!(store.put(first, config("a", "x")).version(), 101);
    assert_eq!(store.put(second, config("a", "x")).version(), 102);
    assert_eq!(store.remove(first, "ns", "a").unwrap().version(), 103);
    assert!(store.remove(first, "ns", "a").is_none());
    assert_eq!(store.version(), 103);
}

#[test]
fn an_object_that_leaves_or_enters_a_selection_is_deleted_or_added_for_that_watcher() {
    let (mut store, table) = store(10);
    let mut live = store.watch(table, select("x"), Start::Now).unwrap();
    store.put(table, config("a", "x"));
    store.put(table, config("a", "y"));
    store.put(table, config("a", "y"));
    store.put(table, config("a", "x"));
    store.remove(table, "ns", "a");
    let expected = vec![
        said("ADDED", "x", 101),
        said("DELETED", "x", 102),
        said("ADDED", "x", 104),
        said("DELETED", "x", 105),
    ];
    assert_eq!(lines(&mut live), expected);
    let mut resumed = store.watch(table, select("x"), Start::After(100)).unwrap();
    assert_eq!(lines(&mut resumed), expected);
    let mut late = store.watch(table, select("x"), Start::After(102)).unwrap();
    assert_eq!(lines(&mut late), expected[2..]);
}

#[test]
fn a_watch_from_before_the_kept_history_is_refused() {
    let (mut store, table) = store(2);
    for name in ["a", "b", "c"] {
        store.put(table, config(name, "x"));
    }
    let mut reachable = watch_after(&mut store, table, 101).unwrap();
    assert_eq!(lines(&mut reachable).len(), 2);
    let refused = watch_after(&mut store, table, 100).unwrap_err();
    assert_eq!(refused, OutOfReach::TooOld { oldest: 101 });
    store.expire_history();
    assert!(watch_after(&mut store, table, 102).is_err());
    assert!(watch_after(&mut store, table, 103).is_ok());
}

#[test]
fn a_past_version_is_read_by_undoing_what_came_after() {
    let (mut store, table) = store(10);
    store.put(table, config("a", "x"));
    store.put(table, config("b", "x"));
    store.put(table, config("a", "y"));
    store.remove(table, "ns", "b");
    store.put(table, config("c", "x"));
    let names = |version| {
        let objects = store.scan_at(table, version).unwrap();
        objects
            .values()
            .map(|o| format!("{}@{}", o.name(), o.version()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(102), ["a@101", "b@102"]);
    assert_eq!(names(103), ["a@103", "b@102"]);
    assert_eq!(names(105), ["a@103", "c@105"]);
    let refused = store.scan_at(table, 106).unwrap_err();
    assert_eq!(refused, OutOfReach::TooNew { current: 105 });
}

#[test]
fn ended_watches_deliver_what_was_queued_and_then_stop() {
    let (mut store, table) = store(10);
    let mut watch = store.watch(table, Filter::default(), Start::Now).unwrap();
    store.put(table, config("a", "x"));
    assert_eq!(store.end_watches(Ending::Clean), 1);
    store.put(table, config("b", "x"));
    assert_eq!(lines(&mut watch), vec![said("ADDED", "x", 101)]);
    assert!(watch.subscription.queue.is_closed());
    assert!(!watch.subscription.was_severed());
    assert_eq!(store.watches(), 0);
}

#[test]
fn a_namespace_is_scanned_alone_even_when_another_starts_with_its_name() {
    let (mut store, table) = store(10);
    for namespace in ["ns", "ns-2", "n"] {
        let object = json!({"metadata": {"namespace": namespace, "name": "a"}});
        store.put(table, object);
    }
    let found = store.scan(table, Some("ns"));
    let namespaces: Vec<_> = found.iter().map(|o| o.namespace()).collect();
    assert_eq!(namespaces, ["ns"]);
    assert_eq!(store.scan(table, None).len(), 3);
}

#[test]
fn a_watcher_that_does_not_read_is_forgotten_and_can_resume() {
    let (mut store, table) = store(100_000);
    let mut lazy = store.watch(table, Filter::default(), Start::Now).unwrap();
    let mut writes = 0;
    while store.watches() == 1 {
        store.put(table, config("a", "x"));
        writes += 1;
        assert!(writes < 100_000, "the queue has no end");
    }
    let (_, _, last) = lines(&mut lazy).pop().unwrap();
    let mut resumed = watch_after(&mut store, table, last).unwrap();
    assert_eq!(lines(&mut resumed), vec![said("MODIFIED", "x", last + 1)]);
}

#[test]
fn a_watch_from_the_future_waits_for_it() {
    let (mut store, table) = store(10);
    let mut early = watch_after(&mut store, table, 102).unwrap();
    for name in ["a", "b", "c"] {
        store.put(table, config(name, "x"));
    }
    assert_eq!(lines(&mut early), vec![said("ADDED", "x", 103)]);
}
