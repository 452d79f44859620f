use futures::stream;
use parking_lot::Mutex;

use super::*;

/// An index of numbers that records its calls.
#[derive(Default)]
struct Calls(Mutex<Vec<String>>);

impl Index<u32> for Calls {
    type Value = u32;

    fn reduce(&self, object: &u32) -> u32 {
        object * 10
    }

    fn apply(&self, value: u32) {
        self.0.lock().push(format!("apply {value}"));
    }

    fn delete(&self, value: u32) {
        self.0.lock().push(format!("delete {value}"));
    }

    fn replace(&self, values: Vec<u32>) {
        self.0.lock().push(format!("replace {values:?}"));
    }

    fn interrupted(&self, error: &watcher::Error) {
        self.0.lock().push(format!("interrupted: {error}"));
    }
}

async fn calls(events: Vec<watcher::Result<Event<u32>>>, until: Until) -> Vec<String> {
    let index = Calls::default();
    feed(&mut stream::iter(events), &index, until).await;
    index.0.into_inner()
}

#[tokio::test]
async fn a_list_is_handed_over_whole_and_a_broken_one_never() {
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(1)),
        Err(watcher::Error::NoResourceVersion),
        Ok(Event::Init),
        Ok(Event::InitApply(2)),
        Ok(Event::InitApply(3)),
        Ok(Event::InitDone),
        Ok(Event::Apply(4)),
        Ok(Event::Delete(2)),
    ];
    let calls = calls(events, Until::TheEnd).await;
    assert!(calls[0].starts_with("interrupted"), "{calls:?}");
    assert_eq!(calls[1..], ["replace [20, 30]", "apply 40", "delete 20"]);
}

#[tokio::test]
async fn waiting_for_a_list_ends_with_it() {
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(1)),
        Ok(Event::InitDone),
        Ok(Event::Apply(2)),
    ];
    assert_eq!(calls(events, Until::Listed).await, ["replace [10]"]);
}
