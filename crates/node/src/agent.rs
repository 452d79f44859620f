//! Puts the agent together: every part as a supervised task of the process.

use std::net::SocketAddr;
use std::sync::Arc;

use gpushare_core::names;
use gpushare_daemon::Tasks;
use gpushare_daemon::admin::Admin;
use gpushare_daemon::serve::{self, ListenError};
use gpushare_kubelet_api::deviceplugin::CHECKPOINT;
use kube::Client;
use thiserror::Error;
use tokio::sync::watch;

use crate::cards::Cards;
use crate::cdi::SlotFiles;
use crate::cdi::directory::DirectoryError;
use crate::cdi::nvidia::DriverSpecs;
use crate::cgroup::{CgroupError, Cgroups};
use crate::config::Config;
use crate::identity::podresources::lister;
use crate::metrics::{self, Metrics};
use crate::offer::Offer;
use crate::plugin::Plugin;
use crate::start::{PodLookup, Starter};
use crate::state::NodeState;
use crate::{ends, nvml, publish, sweep, watch as pods};

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("cannot take over the CDI specs of an earlier agent")]
    Files(#[from] DirectoryError),
    #[error("cannot tell when containers have ended")]
    Cgroups(#[from] CgroupError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot serve the administration routes")]
    Serve(#[source] std::io::Error),
}

/// A running agent, as far as callers need access to it.
#[derive(Debug)]
pub struct Agent {
    pub state: Arc<NodeState>,
    pub cards: watch::Receiver<Cards>,
    /// Where the administration routes are served.
    pub address: SocketAddr,
}

/// Starts every part. Call it on a runtime. Without a client nothing is published, and only
/// the caller feeds the state.
pub fn start(config: &Config, client: Option<Client>, tasks: &Tasks) -> Result<Agent, AgentError> {
    start_with(config, client, read_cards(config, tasks), tasks)
}

/// Like [`start`], but with cards that the caller provides: the driver is never queried.
pub fn start_with(
    config: &Config,
    client: Option<Client>,
    cards: watch::Receiver<Cards>,
    tasks: &Tasks,
) -> Result<Agent, AgentError> {
    let listener = serve::listen(config.listen)?;
    let address = listener.local_addr().map_err(AgentError::Serve)?;
    let cgroups = Cgroups::open(&config.cgroup_root)?;
    let (files, earlier) = SlotFiles::open(&config.cdi_dir)?;
    let files = Arc::new(files);
    let offer = Offer::new(config.reading, config.slots);
    let state = Arc::new(NodeState::new(offer.dialects.classes.clone(), earlier));
    let mut catalogue = metrics::catalogue();
    let metrics = Metrics::new(&mut catalogue);

    let published = talk_to_the_api(config, client.clone(), &offer, &state, &cards, tasks);
    let (lister, worker) = lister(&config.pod_resources_socket);
    forever(
        tasks,
        "the PodResources client",
        worker.run(tasks.shutdown().clone()),
    );
    forever(
        tasks,
        "the sweep",
        sweep::sweep_for_ever(state.clone(), files.clone(), metrics.clone()),
    );
    forever(
        tasks,
        "the watch for the ends of containers",
        ends::watch_ends(state.clone(), cgroups.clone()),
    );
    forever(
        tasks,
        "the card metrics",
        count_cards(cards.clone(), metrics.clone()),
    );

    let starter = Arc::new(Starter {
        checkpoint: config.device_plugin_dir.join(CHECKPOINT),
        lister,
        state: state.clone(),
        cards: cards.clone(),
        files,
        cgroups,
        driver: DriverSpecs {
            directories: vec![config.driver_cdi_dir.clone(), config.cdi_dir.clone()],
        },
        dialects: offer.dialects,
        unit: config.reading.aliyun,
        pods: client.map(PodLookup),
    });
    for division in offer.divisions {
        let plugin = Plugin {
            division,
            directory: config.device_plugin_dir.clone(),
            cards: cards.clone(),
            starter: starter.clone(),
            metrics: metrics.clone(),
            tasks: tasks.clone(),
        };
        forever(tasks, "the device plugin", plugin.run());
    }

    let traffic = metrics.traffic.clone();
    let ready = readiness(state.clone(), cards.clone(), published, metrics);
    let admin = Admin {
        version: env!("CARGO_PKG_VERSION"),
        registry: catalogue.publish().registry,
        ready: Arc::new(ready),
    };
    serve::spawn(
        tasks,
        "the administration routes",
        listener,
        None,
        admin.router(),
        serve::Connections::default().counted_by(traffic),
    );
    Ok(Agent {
        state,
        cards,
        address,
    })
}

/// A part that ends only with the process.
fn forever(tasks: &Tasks, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
    let shutdown = tasks.shutdown().clone();
    tasks.service(name, async move {
        let _stopped = shutdown.run_until_cancelled(part).await;
        Ok::<(), std::convert::Infallible>(())
    });
}

fn read_cards(config: &Config, tasks: &Tasks) -> watch::Receiver<Cards> {
    let (tell, cards) = watch::channel(Cards::default());
    let (driver, stop) = (config.driver.clone(), tasks.shutdown().clone());
    tasks.service("the reading of cards", async move {
        tokio::task::spawn_blocking(move || nvml::watch_cards(&driver, &tell, &stop)).await
    });
    cards
}

/// Watches the pods and publishes the cards. The receiver shows whether the cards are published on the Node.
fn talk_to_the_api(
    config: &Config,
    client: Option<Client>,
    offer: &Offer,
    state: &Arc<NodeState>,
    cards: &watch::Receiver<Cards>,
    tasks: &Tasks,
) -> watch::Receiver<bool> {
    let Some(client) = client else {
        return watch::channel(true).1;
    };
    let (tell, published) = watch::channel(false);
    let node = config.node.clone();
    let following = pods::follow_pods(
        client.clone(),
        node.clone(),
        offer.dialects.clone(),
        state.clone(),
    );
    forever(tasks, "the watch of pods", following);
    let sources = publish::Sources {
        cards: cards.clone(),
        held: state.held(),
    };
    let publishing = publish::publish_for_ever(client, node, offer.clone(), sources, tell);
    forever(tasks, "the publishing of cards", publishing);
    published
}

async fn count_cards(mut cards: watch::Receiver<Cards>, metrics: Metrics) {
    loop {
        let known = cards
            .borrow_and_update()
            .known()
            .cloned()
            .unwrap_or_default();
        metrics.cards(&known);
        if cards.changed().await.is_err() {
            return;
        }
    }
}

/// Ready when a pod that is placed here can start.
fn readiness(
    state: Arc<NodeState>,
    cards: watch::Receiver<Cards>,
    published: watch::Receiver<bool>,
    metrics: Metrics,
) -> impl Fn() -> Result<(), String> + Send + Sync {
    move || {
        let reason = if cards.borrow().known().is_none() {
            "the cards have not been read, see the log"
        } else if !state.listed() {
            "the pods of this node are not listed yet"
        } else if !*published.borrow() {
            "the cards are not published on the Node: it is missing or was not written yet, see the log"
        } else if !metrics.is_registered(names::GPU) {
            "the kubelet has not accepted the registration yet"
        } else {
            return Ok(());
        };
        Err(reason.to_owned())
    }
}
