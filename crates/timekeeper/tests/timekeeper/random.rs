//! Anything in any order: pods that start, end and go, clocks that are wrong, timekeepers that come and go. In the end
//! what is charged is what was held.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_ledger::Seconds;

use crate::world::{NODE, Running, World};

/// The largest pod in GiB, on a card of 16.
const LARGEST: u64 = 16;
const STEPS: u32 = 40;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn seconds(&mut self, limit: u64) -> Seconds {
        Seconds::try_from(self.below(limit)).unwrap()
    }
}

/// What really happened to a pod.
#[derive(Debug)]
struct Held {
    gib: u64,
    from: Seconds,
    to: Option<Seconds>,
    deleted: bool,
}

struct Chaos {
    world: World,
    random: Random,
    now: Seconds,
    pods: BTreeMap<String, Held>,
    running: Option<Running>,
}

impl Chaos {
    async fn step(&mut self) {
        match self.random.below(10) {
            0 | 1 => self.begin().await,
            2 | 3 => self.end().await,
            4 => self.delete().await,
            5 => {
                if let Some(running) = self.running.take() {
                    running.stop().await;
                }
            }
            6 => {
                self.running.get_or_insert_with(|| self.world.start());
            }
            7 => {
                self.now += self.random.seconds(1_500);
                self.world.at(self.now);
            }
            8 => {
                let wrong = self.now + self.random.seconds(4_000) - 2_000;
                self.world.at(wrong);
            }
            _ => {
                self.world.server.faults().cut_watches();
            }
        }
        // Not to wait for anything, but to let rounds fall between different steps each time.
        tokio::time::sleep(Duration::from_millis(self.random.below(40))).await;
    }

    async fn begin(&mut self) {
        let name = format!("p{}", self.pods.len());
        let gib = 1 + self.random.below(LARGEST);
        let pod = self.world.create(&name, gib).await;
        self.world.run_on(&pod, NODE, self.now).await;
        let held = Held {
            gib,
            from: self.now,
            to: None,
            deleted: false,
        };
        self.pods.insert(name, held);
    }

    /// The end may be reported late.
    async fn end(&mut self) {
        let late = self.random.seconds(600);
        let open = |held: &&mut Held| held.to.is_none();
        let number = self.random.below(4);
        let mut open = self
            .pods
            .iter_mut()
            .filter(|(_, held)| open(held))
            .skip(usize::try_from(number).unwrap());
        if let Some((name, held)) = open.next() {
            let end = (self.now - late).max(held.from);
            held.to = Some(end);
            self.world.finish(name, end).await;
        }
    }

    async fn delete(&mut self) {
        let mut ended = self.pods.iter_mut();
        let ended = ended.find(|(_, held)| held.to.is_some() && !held.deleted);
        if let Some((name, held)) = ended {
            held.deleted = true;
            // Its object may have been released already; then it is gone after this.
            self.world.delete(name).await;
        }
    }
}

async fn charges_what_was_held(seed: u64) {
    let world = World::with_budget(1_000_000).await;
    let mut chaos = Chaos {
        world,
        random: Random(seed),
        now: 0,
        pods: BTreeMap::new(),
        running: None,
    };
    for _ in 0..STEPS {
        chaos.step().await;
    }
    let names: Vec<String> = chaos.pods.keys().cloned().collect();
    chaos.now += 100;
    for (name, held) in &mut chaos.pods {
        if held.to.is_none() {
            held.to = Some(chaos.now);
            chaos.world.finish(name, chaos.now).await;
        }
    }
    chaos.world.at(chaos.now + 5_000);
    chaos.running.get_or_insert_with(|| chaos.world.start());
    for name in &names {
        chaos.world.until_released(name).await;
    }
    let charged: BTreeMap<String, (Seconds, i64)> = chaos
        .world
        .statement()
        .await
        .into_iter()
        .map(|(name, seconds, thousandths)| (name, (seconds, thousandths)))
        .collect();
    let held = chaos.pods.iter().map(|(name, held)| {
        let seconds = held.to.unwrap() - held.from;
        let micros = seconds * 62_500 * i64::try_from(held.gib).unwrap();
        (name.clone(), (seconds, micros / 1_000))
    });
    // A pod that ended when it began was never charged for anything.
    let held: BTreeMap<String, (Seconds, i64)> = held.filter(|(_, held)| held.0 > 0).collect();
    assert_eq!(charged, held, "seed {seed}");
    chaos.world.audit().await;
    if let Some(running) = chaos.running {
        running.stop().await;
    }
}

#[tokio::test]
async fn in_any_order_of_events_what_is_charged_is_what_was_held() {
    for seed in [3, 1_414, 271_828, 31_415_926] {
        charges_what_was_held(seed).await;
    }
}
