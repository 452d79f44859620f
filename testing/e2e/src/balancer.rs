//! Does what a Service does: it sends new connections to a replica that is ready, and leaves existing connections
//! alone, whatever happens to their replica.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

use crate::follower::Background;
use crate::http;
use crate::world::World;

/// The interval that a careful operator would give a readiness probe.
const PROBE: Duration = Duration::from_millis(500);

/// Stops when dropped.
#[derive(Debug)]
pub struct Balancer {
    _serving: Background,
}

impl Balancer {
    /// Listens on the rig's loopback and forwards to whichever of the replicas is ready.
    pub fn start(world: &World, address: &'static str, replicas: Vec<String>) -> Self {
        let serve = async move |ready: Sender<()>| {
            let listener = TcpListener::bind(address).await.expect("a free port");
            ready.send(()).expect("the test waits");
            let chosen = Arc::new(Mutex::new(None));
            tokio::select! {
                () = probe(&replicas, &chosen) => {}
                () = accept(&listener, &chosen) => {}
            }
        };
        let (serving, ()) = Background::start(world.rig(), serve);
        Self { _serving: serving }
    }
}

async fn probe(replicas: &[String], chosen: &Mutex<Option<String>>) {
    loop {
        let mut ready = None;
        for replica in replicas {
            let asked = tokio::time::timeout(PROBE, http::get(replica, "/readyz")).await;
            if matches!(asked, Ok(Ok(answer)) if answer.status == 200) {
                ready = Some(replica.clone());
            }
        }
        *chosen.lock() = ready;
        tokio::time::sleep(PROBE).await;
    }
}

async fn accept(listener: &TcpListener, chosen: &Mutex<Option<String>>) {
    loop {
        let (mut client, _) = listener.accept().await.expect("a connection");
        let Some(replica) = chosen.lock().clone() else {
            continue;
        };
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(replica).await {
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
