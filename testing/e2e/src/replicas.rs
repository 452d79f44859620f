//! Two extenders of one cluster, behind a balancer at the address that the scheduler uses.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::balancer::Balancer;
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::world::{EXTENDER, World};
use crate::{http, wait};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replica {
    One,
    Two,
}

/// A frozen replica does not answer at all, so requests need a timeout.
const ANSWER: Duration = Duration::from_secs(5);

pub const BOTH: [Replica; 2] = [Replica::One, Replica::Two];

impl Replica {
    /// The replica's name in the lease, without the random part.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
        }
    }

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }

    fn address(self) -> &'static str {
        match self {
            Self::One => "127.0.0.1:12351",
            Self::Two => "127.0.0.1:12352",
        }
    }
}

#[derive(Debug)]
pub struct Replicas {
    one: Process,
    two: Process,
    _balancer: Balancer,
}

impl Replicas {
    /// Starts both in place of the world's single extender, and waits until one leads.
    pub fn start(world: &mut World) -> Self {
        world.extender = None;
        let [one, two] = BOTH.map(|replica| start(world, replica));
        let addresses = BOTH.map(|replica| replica.address().to_owned());
        let balancer = Balancer::start(world, EXTENDER, addresses.into());
        let replicas = Self {
            one,
            two,
            _balancer: balancer,
        };
        replicas.leader(world);
        world.wait_ready();
        replicas
    }

    pub fn process(&mut self, replica: Replica) -> &mut Process {
        match replica {
            Replica::One => &mut self.one,
            Replica::Two => &mut self.two,
        }
    }

    /// Starts a replica whose process has ended.
    pub fn restart(&mut self, world: &World, replica: Replica) {
        *self.process(replica) = start(world, replica);
    }

    /// Waits until a replica leads, and returns it.
    pub fn leader(&self, world: &World) -> Replica {
        wait::until("a replica to lead", || {
            let ready = |replica: &Replica| status(world, *replica, "/readyz") == Some(200);
            BOTH.into_iter().find(ready).ok_or("none is ready")
        })
    }

    /// Whether the replica is alive but does not lead.
    pub fn follows(&self, world: &World, replica: Replica) -> bool {
        status(world, replica, "/readyz") == Some(503)
            && status(world, replica, "/healthz") == Some(200)
    }

    /// The replica that holds the lease.
    pub fn holder(&self, world: &World) -> Result<Replica> {
        let lease = world.get("lease gpushare-extender --namespace=gpushare-system")?;
        let holder = lease["spec"]["holderIdentity"].as_str();
        let holder = holder.context("nobody holds the lease")?;
        let named = |replica: &Replica| holder.starts_with(&format!("{}_", replica.name()));
        let replica = BOTH.into_iter().find(named);
        ensure!(replica.is_some(), "{holder}");
        replica.context("no such replica")
    }
}

fn start(world: &World, replica: Replica) -> Process {
    world.start_replica(replica.name(), replica.address())
}

fn status(world: &World, replica: Replica, path: &str) -> Option<u16> {
    let ask = || tokio::time::timeout(ANSWER, http::get(replica.address(), path));
    let answer = world.rig().run(async || ask().await);
    answer.ok()?.ok().map(|answer| answer.status)
}
