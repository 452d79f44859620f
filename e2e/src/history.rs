//! The watch history: every state the API server showed, and what was booked on each card in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use gpushare_core::gpu::MEMORY;
use gpushare_core::{Amounts, CardId, PodUid};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde::Deserialize;

use crate::process::Process;
use crate::setup::Setup;
use crate::wait;
use crate::world::World;

/// Records every pod event from its start to its end.
#[derive(Debug)]
pub struct History {
    file: PathBuf,
    _watch: Process,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: slim::Pod,
}

impl History {
    /// Begins to record; pods that exist are the first events.
    pub fn record(world: &World, name: &str) -> Self {
        let file = world.directory().join(format!("history-{name}.json"));
        File::create(&file).expect("the history file is made");
        let mut command = world.rig().net("kubectl");
        command
            .args([
                "get",
                "pods",
                "--all-namespaces",
                "--watch",
                "--output=json",
            ])
            .arg("--output-watch-events");
        let log = world.rig().logs().join("history.log");
        let watch = Process::start_split("kubectl watch", command, &file, &log);
        Self {
            file,
            _watch: watch,
        }
    }

    fn events(&self) -> Vec<Event> {
        let text = fs::read_to_string(&self.file).expect("the history is readable");
        let stream = serde_json::Deserializer::from_str(&text).into_iter::<Event>();
        // The last event may still be being written.
        stream.map_while(Result::ok).collect()
    }

    /// Waits until the history has shown every one of `pods` bound, so that nothing is missing before it.
    pub fn wait_for_bound(&self, pods: usize) {
        wait::until("the watch to show every bind", || {
            let bound: std::collections::BTreeSet<_> = self
                .events()
                .into_iter()
                .filter(|event| event.object.spec.node_name.is_some())
                .filter_map(|event| event.object.metadata.uid)
                .collect();
            if bound.len() >= pods {
                Ok(())
            } else {
                Err(format!("{} of {pods}", bound.len()))
            }
        });
    }

    /// The largest sum on each card at any moment; panics where it exceeds the card's size.
    pub fn assert_never_over(&self, sizes: &BTreeMap<CardId, u64>) -> BTreeMap<CardId, u64> {
        let dialects = Setup::cards(&[]).hami().dialects();
        let mut held: BTreeMap<PodUid, BTreeMap<CardId, u64>> = BTreeMap::new();
        let mut highest = BTreeMap::new();
        for event in self.events() {
            let facts = PodFacts::new(&event.object, &dialects);
            held.remove(&facts.uid);
            if event.kind != "DELETED"
                && !facts.ended
                && let Some(Ok(bound)) = facts.bound(&dialects.classes)
            {
                let charges = bound.placement.charges(&bound.ask);
                let memory = charges.into_iter().map(|(card, hold)| {
                    let size = sizes.get(&card).copied().unwrap_or_default();
                    let held = hold.on(&Amounts::of(MEMORY, size)).get(MEMORY);
                    (card, held)
                });
                held.insert(facts.uid, memory.collect());
            }
            for (card, sum) in sums(&held) {
                let size = sizes.get(&card).unwrap_or_else(|| panic!("no card {card}"));
                assert!(sum <= *size, "{card}: {sum} MiB booked of {size}");
                let peak = highest.entry(card).or_insert(0);
                *peak = sum.max(*peak);
            }
        }
        assert!(!highest.is_empty(), "the history shows no booking at all");
        highest
    }
}

fn sums(held: &BTreeMap<PodUid, BTreeMap<CardId, u64>>) -> BTreeMap<CardId, u64> {
    let mut sums = BTreeMap::new();
    for (card, memory) in held.values().flatten() {
        *sums.entry(card.clone()).or_insert(0) += memory;
    }
    sums
}
