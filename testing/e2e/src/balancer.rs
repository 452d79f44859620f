//! Does what a Service does: it sends new connections to a replica that is ready, and leaves existing connections
//! alone, whatever happens to their replica.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::http;
use crate::world::World;

/// The interval that a careful operator would give a readiness probe.
const PROBE: Duration = Duration::from_millis(500);

/// Stops when dropped.
#[derive(Debug)]
pub struct Balancer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Balancer {
    /// Listens on the rig's loopback and forwards to whichever of the replicas is ready.
    pub fn start(world: &World, address: &'static str, replicas: Vec<String>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = channel();
        let rig = world.rig().clone();
        let serve = move || async move {
            let listener = TcpListener::bind(address).await.expect("a free port");
            ready.send(()).expect("the test waits");
            let chosen = Arc::new(Mutex::new(None));
            tokio::select! {
                () = probe(&replicas, &chosen) => {}
                () = accept(&listener, &chosen) => {}
                _ = stopped => {}
            }
        };
        let thread = thread::spawn(move || rig.run(serve));
        started.recv().expect("the balancer starts");
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
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
