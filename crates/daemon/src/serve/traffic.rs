//! What happens to connections: counted in metrics, and logged at a limited rate, since clients decide how often it
//! happens.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use super::limits::Limits;
use super::places::Full;
use crate::metrics::{Catalogue, Count, CountByReason};

const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Counts for all listeners of a process; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    open: Gauge,
    refused: CountByReason,
    cut: CountByReason,
    lines: Arc<Lines>,
}

/// What a client was too slow with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slow {
    Handshake,
    Head,
    Body,
    Write,
}

#[derive(Debug)]
pub(super) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug, Default)]
struct Lines {
    refused: Line,
    cut: Line,
    displaced: Line,
    not_accepted: Line,
}

/// One log line: when it was last written, and how often it was suppressed since.
#[derive(Debug, Default)]
struct Line(Mutex<(Option<Instant>, u64)>);

impl Traffic {
    pub fn new(catalogue: &mut Catalogue) -> Self {
        Self {
            open: catalogue.add("connections", "Open connections of clients"),
            refused: catalogue.add(
                "connections_refused",
                "Connections closed at once: too many in total, too many from one client, or no file descriptor left",
            ),
            cut: catalogue.add(
                "connections_cut",
                "Connections and requests that were cut. The client was slow: in the TLS handshake (handshake), in the head or the body of a request (head, body), or in reading the response (write). Or all connections were in use, and another client had fewer (displaced)",
            ),
            lines: Arc::default(),
        }
    }

    /// Counts one more open connection, until the returned value is dropped.
    pub(super) fn opened(&self) -> Open {
        self.open.inc();
        Open(self.open.clone())
    }

    pub(super) fn refused(&self, full: Full, client: IpAddr, limits: &Limits) {
        let reason = match full {
            Full::All => "all",
            Full::Client => "client",
        };
        self.refused.count(reason);
        let Limits {
            connections,
            per_client,
            ..
        } = limits;
        self.lines.refused.write(|held_back| {
            tracing::warn!(%client, reason, connections, per_client, held_back, "too many connections; refusing more");
        });
    }

    pub(super) fn cut(&self, slow: Slow, client: IpAddr) {
        let reason = match slow {
            Slow::Handshake => "handshake",
            Slow::Head => "head",
            Slow::Body => "body",
            Slow::Write => "write",
        };
        self.cut.count(reason);
        self.lines.cut.write(|held_back| {
            tracing::info!(%client, reason, held_back, "a client was too slow; its connection was given up");
        });
    }

    pub(super) fn displaced(&self, client: IpAddr, newcomer: IpAddr) {
        let reason = "displaced";
        self.cut.count(reason);
        self.lines.displaced.write(|held_back| {
            tracing::warn!(%client, %newcomer, held_back, "too many connections; the client with most lost its oldest one");
        });
    }

    pub(super) fn not_accepted(&self, error: &io::Error) {
        let reason = "descriptors";
        self.refused.count(reason);
        self.lines.not_accepted.write(|held_back| {
            tracing::error!(%error, held_back, "cannot accept connections");
        });
    }
}

impl Line {
    fn write(&self, write: impl FnOnce(u64)) {
        let held_back = {
            let mut line = self.0.lock();
            let (last, held_back) = &mut *line;
            if last.is_some_and(|last| last.elapsed() < BETWEEN_LINES) {
                *held_back += 1;
                return;
            }
            *last = Some(Instant::now());
            std::mem::take(held_back)
        };
        write(held_back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_clients_cause_is_not_written_each_time() {
        let (line, mut written) = (Line::default(), 0);
        for _ in 0..1000 {
            line.write(|_| written += 1);
        }
        assert_eq!(written, 1);
        line.0.lock().0 = None;
        line.write(|held_back| assert_eq!(held_back, 999));
    }
}
