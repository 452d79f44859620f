//! Candidates, a store and a bad network, with events in any order: at most one candidate leads, and
//! everything that earlier leaders began is over by then.

use gpushare_core::lease::{Candidate, Lease, Millis, Step, Timing};
use proptest::prelude::*;

const NAMES: [&str; 3] = ["a", "b", "c"];
const TIMING: Timing = Timing {
    duration: 2_000,
    renew_deadline: 1_000,
    retry: 200,
};
/// How long after it was sent a bind may take effect, in true time.
const BIND: Millis = 800;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// True time passes.
    Pass(Millis),
    /// True time passes until just before the leader's term ends, and the leader binds then.
    BindAtTheBrink,
    /// The candidate's current request advances by one step: sent, carried out, or answered.
    Go(usize),
    /// The candidate reads and, if it should, writes, with nothing in between.
    Round(usize),
    /// The candidate's request is lost. If it was not carried out yet, that may still happen later.
    Lose(usize),
    /// A lost request arrives after all.
    Arrive(usize),
    /// The candidate binds a pod, if it leads.
    Bind(usize),
    /// The process dies; another of the same name takes its place.
    Restart(usize),
    /// The process ends cleanly: with nothing under way, it releases the lease.
    End(usize),
    /// A user deletes the lease.
    Delete,
    /// A user removes the holder from the lease.
    Clear,
}

fn event() -> impl Strategy<Value = Event> {
    let who = || 0..NAMES.len();
    prop_oneof![
        60 => who().prop_map(Event::Go),
        30 => who().prop_map(Event::Round),
        40 => (0..300_u64).prop_map(Event::Pass),
        4 => (300..2_500_u64).prop_map(Event::Pass),
        6 => Just(Event::BindAtTheBrink),
        25 => who().prop_map(Event::Bind),
        8 => who().prop_map(Event::Lose),
        5 => (0..8_usize).prop_map(Event::Arrive),
        6 => who().prop_map(Event::Restart),
        4 => who().prop_map(Event::End),
        1 => Just(Event::Delete),
        1 => Just(Event::Clear),
    ]
}

/// A write on its way: carried out only if the lease is still the one it was based on.
#[derive(Clone, Debug)]
struct Write {
    based_on: Option<u64>,
    lease: Lease,
}

#[derive(Clone, Debug)]
enum Request {
    Nothing,
    /// Read, not answered yet.
    Read(Option<Lease>),
    Sent(Write, Millis),
    /// Carried out, not answered yet: the stored lease, or `None` if the write was refused.
    Done(Option<Lease>, Millis),
}

#[derive(Debug)]
struct Process {
    candidate: Candidate,
    request: Request,
    /// The clock's speed in percent of true time, and what it showed at the start.
    clock: (u64, u64),
    /// Binds under way, as the times at which they are over.
    binds: Vec<Millis>,
}

#[derive(Debug)]
struct World {
    now: Millis,
    version: u64,
    stored: Option<Lease>,
    processes: Vec<Process>,
    /// Writes that their sender has given up on.
    adrift: Vec<Write>,
    /// Binds of processes that are dead.
    left_behind: Vec<Millis>,
}

fn version(lease: &Lease) -> u64 {
    lease.renewals.parse().expect("a version of our own")
}

impl World {
    fn new(speeds: [u64; 3]) -> Self {
        let process = |(name, speed): (&str, u64)| Process {
            candidate: Candidate::new(name, TIMING),
            request: Request::Nothing,
            clock: (speed, speed * 7_919),
            binds: Vec::new(),
        };
        Self {
            now: 0,
            version: 0,
            stored: None,
            processes: NAMES.into_iter().zip(speeds).map(process).collect(),
            adrift: Vec::new(),
            left_behind: Vec::new(),
        }
    }

    fn clock(&self, who: usize) -> Millis {
        let (speed, start) = self.processes[who].clock;
        start + self.now * speed / 100
    }

    fn leads(&self, who: usize) -> bool {
        self.processes[who].candidate.leads(self.clock(who))
    }

    fn leader(&self) -> Option<usize> {
        (0..NAMES.len()).find(|who| self.leads(*who))
    }

    fn carry_out(&mut self, write: Write) -> Option<Lease> {
        (self.stored.as_ref().map(version) == write.based_on).then(|| self.store(write.lease))
    }

    fn store(&mut self, lease: Lease) -> Lease {
        self.version += 1;
        let renewals = self.version.to_string();
        self.stored.insert(Lease { renewals, ..lease }).clone()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Pass(time) => self.now += time,
            Event::BindAtTheBrink => {
                while let Some(leader) = self.leader() {
                    self.now += 1;
                    if !self.leads(leader) {
                        self.now -= 1;
                        self.happen(Event::Bind(leader));
                        break;
                    }
                }
            }
            Event::Go(who) => self.go(who),
            Event::Round(who) => {
                self.happen(Event::Lose(who));
                self.go(who);
                self.go(who);
                while !matches!(self.processes[who].request, Request::Nothing) {
                    self.go(who);
                }
            }
            Event::Lose(who) => {
                let lost = std::mem::replace(&mut self.processes[who].request, Request::Nothing);
                if let Request::Sent(write, _) = lost {
                    self.adrift.push(write);
                }
            }
            Event::Arrive(which) if which < self.adrift.len() => {
                let write = self.adrift.remove(which);
                self.carry_out(write);
            }
            Event::Arrive(_) => {}
            Event::Bind(who) => {
                if self.leads(who) {
                    let over = self.now + BIND;
                    self.processes[who].binds.push(over);
                }
            }
            Event::Restart(who) => self.restart(who),
            Event::End(who) => self.end(who),
            Event::Delete => self.stored = None,
            Event::Clear => {
                if let Some(lease) = self.stored.clone() {
                    let holder = String::new();
                    self.store(Lease { holder, ..lease });
                }
            }
        }
        let now = self.now;
        self.left_behind.retain(|over| *over > now);
        for process in &mut self.processes {
            process.binds.retain(|over| *over > now);
        }
    }

    fn go(&mut self, who: usize) {
        let now = self.clock(who);
        let request = std::mem::replace(&mut self.processes[who].request, Request::Nothing);
        let next = match request {
            Request::Nothing => Request::Read(self.stored.clone()),
            Request::Read(read) => {
                let based_on = read.as_ref().map(version);
                let (holder, transitions) = match self.processes[who].candidate.step(now, read) {
                    Step::Wait(_) => return,
                    Step::Create => ("", 0),
                    Step::Take { transitions } => (NAMES[who], transitions),
                };
                let lease = Lease {
                    holder: holder.to_owned(),
                    renewals: String::new(),
                    transitions,
                    duration: Some(TIMING.duration),
                };
                Request::Sent(Write { based_on, lease }, now)
            }
            Request::Sent(write, began) => Request::Done(self.carry_out(write), began),
            Request::Done(written, began) => {
                if let Some(lease) = written.filter(|lease| !lease.holder.is_empty()) {
                    self.processes[who].candidate.wrote(began, lease);
                }
                Request::Nothing
            }
        };
        self.processes[who].request = next;
    }

    fn restart(&mut self, who: usize) {
        self.happen(Event::Lose(who));
        let process = &mut self.processes[who];
        self.left_behind.append(&mut process.binds);
        process.candidate = Candidate::new(NAMES[who], TIMING);
    }

    fn end(&mut self, who: usize) {
        if self.leads(who) && self.processes[who].binds.is_empty() {
            self.happen(Event::Lose(who));
            self.processes[who].candidate.resign();
            if let Some(lease) = self.stored.clone()
                && lease.holder == NAMES[who]
            {
                let back = Lease {
                    holder: String::new(),
                    duration: None,
                    ..lease.clone()
                };
                let based_on = Some(version(&lease));
                self.adrift.push(Write {
                    based_on,
                    lease: back,
                });
            }
            self.restart(who);
        }
    }

    fn check(&self) -> Result<(), String> {
        let leaders: Vec<usize> = (0..NAMES.len()).filter(|who| self.leads(*who)).collect();
        if leaders.len() > 1 {
            return Err(format!("{leaders:?} lead at once"));
        }
        for leader in leaders {
            let others = (0..NAMES.len()).filter(|who| *who != leader);
            let foreign = others.flat_map(|who| &self.processes[who].binds);
            if let Some(over) = foreign.chain(&self.left_behind).next() {
                return Err(format!(
                    "{leader} leads while another's bind is open until {over}"
                ));
            }
        }
        Ok(())
    }
}

proptest! {
    /// The clocks start anywhere and differ by up to a twelfth in speed.
    #[test]
    fn never_two_leaders_nor_a_leader_beside_a_predecessors_bind(
        events in prop::collection::vec(event(), 1..300),
        speeds in prop::array::uniform3(96..=104_u64),
    ) {
        prop_assert_eq!(TIMING.check(BIND), Ok(()));
        let mut world = World::new(speeds);
        for event in events {
            world.happen(event);
            if let Err(error) = world.check() {
                prop_assert!(false, "{} after {:?} in {:#?}", error, event, world);
            }
        }
    }

    /// Whatever has happened before, some candidate leads once the network works again.
    #[test]
    fn in_the_end_someone_leads(events in prop::collection::vec(event(), 1..100)) {
        let mut world = World::new([100; 3]);
        for event in events {
            world.happen(event);
        }
        let rounds = 2 * TIMING.duration / TIMING.retry;
        let led = (0..rounds).any(|_| {
            for who in 0..NAMES.len() {
                world.happen(Event::Round(who));
            }
            world.happen(Event::Pass(TIMING.retry));
            world.leader().is_some()
        });
        prop_assert!(led, "{:#?}", world);
    }
}
