//! A way from the host into a rig's network: a TCP port on the host's loopback whose connections
//! are continued inside. Listens in the host's network first, then enters the rig's.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};

use crate::network::Network;

/// An open bridge. Dropping it closes the port; existing connections continue.
#[derive(Debug)]
pub struct Bridge {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Bridge {
    pub(crate) fn open(network: Network, target: (&'static str, u16)) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("cannot listen on the host's loopback")?;
        let address = listener
            .local_addr()
            .context("the listener has no address")?;
        let closing = Arc::new(AtomicBool::new(false));
        let stop = closing.clone();
        let (entered, entering) = channel();
        let accepting = thread::spawn(move || {
            let result = network.enter();
            let failed = result.is_err();
            let _ = entered.send(result);
            if !failed {
                accept(&listener, target, &stop);
            }
        });
        match entering.recv() {
            Ok(result) => result?,
            Err(_) => bail!("the bridge's thread ended early"),
        }
        Ok(Self {
            address,
            closing,
            accepting: Some(accepting),
        })
    }

    /// Where the bridge listens on the host.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // A last connection wakes the thread that accepts them.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, target: (&'static str, u16), closing: &AtomicBool) {
    for client in listener.incoming() {
        if closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        // Threads started here are in the rig's network as well.
        thread::spawn(move || {
            if let Ok(server) = TcpStream::connect(target) {
                let _ = relay(&client, &server);
            }
        });
    }
}

fn relay(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::scope(|scope| {
        let back = scope.spawn(|| pump(server, client));
        let forth = pump(client, server);
        forth.and(
            back.join()
                .unwrap_or_else(|_| Err(io::ErrorKind::Other.into())),
        )
    })
}

fn pump(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    // The other direction may still be in use: only this one is over.
    let _ = to.shutdown(Shutdown::Write);
    copied.map(|_| ())
}
