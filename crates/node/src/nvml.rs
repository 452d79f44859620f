//! The cards as the driver shows them, through NVML.
//!
//! Runs on its own thread, because NVML calls block. A missing or broken driver is always reported: it
//! is logged with what to do about it, tried again, and every known card is sick meanwhile.

mod session;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpushare_core::CardId;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cards::Cards;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long this thread may take to notice shutdown.
const NAP: Duration = Duration::from_millis(200);

/// Where the driver is and how often it is reopened.
#[derive(Clone, Debug)]
pub struct Driver {
    /// A path, or a name for the dynamic linker to find.
    pub library: PathBuf,
    /// The driver lists its cards when it is opened, so it is reopened at this interval. Not too often:
    /// without persistence mode it releases the cards in between.
    pub rescan: Duration,
}

#[derive(Debug, Error)]
pub enum DriverError {
    #[error(
        "cannot load the NVIDIA driver library {library}: {source}; install the driver on this node, make its \
         library visible to the agent (the nvidia runtime, or a mount), or point --nvml-library at it"
    )]
    Load { library: PathBuf, source: NvmlError },
    #[error(
        "the NVIDIA driver does not start: {source}; check `nvidia-smi` and `dmesg` on this node, the driver may \
         not be loaded or may have another version than its library {library}"
    )]
    Start { library: PathBuf, source: NvmlError },
    #[error(
        "the NVIDIA driver stopped answering: {0}; check `nvidia-smi` and `dmesg` on this node"
    )]
    Ask(#[from] NvmlError),
}

/// What outlives a session with the driver.
#[derive(Debug, Default)]
struct Memory {
    /// Cards with a permanent error, and its Xid number.
    condemned: BTreeMap<CardId, u64>,
    /// How many cards did not answer at the last read.
    silent: usize,
}

/// Keeps `cards` up to date until shutdown. Blocks, so it needs its own thread.
pub fn watch_cards(driver: &Driver, cards: &watch::Sender<Cards>, stop: &CancellationToken) {
    let mut memory = Memory::default();
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        let ended = driver
            .open()
            .and_then(|nvml| session::run(&nvml, driver.rescan, cards, &mut memory, stop));
        match ended {
            Ok(()) => pause = FIRST_PAUSE,
            Err(error) => {
                tracing::error!(%error, retry_in = ?pause, "the cards cannot be read");
                let sick = cards.borrow().all_sick();
                set(cards, sick);
                nap(pause, stop);
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
    }
}

impl Driver {
    fn open(&self) -> Result<Nvml, DriverError> {
        let opened = Nvml::builder().lib_path(self.library.as_os_str()).init();
        opened.map_err(|source| {
            let library = self.library.clone();
            match source {
                NvmlError::LibloadingError(_) => DriverError::Load { library, source },
                source => DriverError::Start { library, source },
            }
        })
    }
}

/// Publishes the cards if they have changed.
fn set(cards: &watch::Sender<Cards>, now: Cards) {
    cards.send_if_modified(|before| {
        let changed = *before != now;
        *before = now;
        changed
    });
}

fn nap(length: Duration, stop: &CancellationToken) {
    let end = Instant::now() + length;
    while !stop.is_cancelled() && Instant::now() < end {
        std::thread::sleep(NAP.min(end.saturating_duration_since(Instant::now())));
    }
}
