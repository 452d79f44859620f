//! The state behind the C interface, from the first initialisation to the last shutdown.
//!
//! One lock guards it; nothing waits or calls out while holding it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::code::Code;
use super::event::EventSets;
use super::source::Source;
use super::{Answer, event};
use crate::hardware::{Card, Hardware};

static STATE: Mutex<State> = Mutex::new(State {
    known: Vec::new(),
    session: None,
});

/// What clients hold as `nvmlDevice_t`: a card's place in [`State::known`] plus one, never null.
///
/// NVML's handle is an opaque pointer; a number of the same size in its place leaves nothing to
/// dereference, so that any value a client passes can be checked.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceHandle(usize);

struct State {
    /// UUIDs of all cards ever listed, so that a card keeps its handle.
    known: Vec<String>,
    session: Option<Session>,
}

/// From the first initialisation to the last shutdown.
#[derive(Debug)]
struct Session {
    /// Initialisations without a shutdown yet.
    holders: usize,
    /// The cards at initialisation, in index order.
    devices: Vec<DeviceHandle>,
    source: Source,
    event_sets: EventSets,
}

/// What an exported function may look at and change while the state is locked.
pub(super) struct View<'a> {
    known: &'a [String],
    devices: &'a [DeviceHandle],
    pub(super) hardware: &'a Hardware,
    pub(super) event_sets: &'a mut event::EventSets,
}

pub(super) fn initialize() -> Answer {
    let mut state = lock();
    if let Some(session) = &mut state.session {
        session.holders = session.holders.saturating_add(1);
        return Ok(());
    }
    let mut source = Source::open()?;
    let uuids: Vec<String> = source
        .current()?
        .cards
        .iter()
        .map(|card| card.uuid.clone())
        .collect();
    let devices = uuids
        .into_iter()
        .map(|uuid| state.handle_of(uuid))
        .collect();
    let event_sets = EventSets::default();
    state.session = Some(Session {
        holders: 1,
        devices,
        source,
        event_sets,
    });
    Ok(())
}

pub(super) fn shut_down() -> Answer {
    let mut state = lock();
    let session = state.session.as_mut().ok_or(Code::Uninitialized)?;
    session.holders = session.holders.saturating_sub(1);
    if session.holders == 0 {
        state.session = None;
    }
    Ok(())
}

/// Looks at the state, with the hardware file as it is now.
pub(super) fn view<T>(look: impl FnOnce(&mut View<'_>) -> Result<T, Code>) -> Result<T, Code> {
    let mut state = lock();
    let State { known, session } = &mut *state;
    let session = session.as_mut().ok_or(Code::Uninitialized)?;
    look(&mut View {
        known,
        devices: &session.devices,
        hardware: session.source.current()?,
        event_sets: &mut session.event_sets,
    })
}

/// Answers a question about one card.
pub(super) fn read_card<T>(
    device: DeviceHandle,
    read: impl FnOnce(&Card) -> Result<T, Code>,
) -> Result<T, Code> {
    view(|view| read(view.card(device)?))
}

impl State {
    fn handle_of(&mut self, uuid: String) -> DeviceHandle {
        let place = self
            .known
            .iter()
            .position(|known| *known == uuid)
            .unwrap_or_else(|| {
                self.known.push(uuid);
                self.known.len().saturating_sub(1)
            });
        DeviceHandle(place.saturating_add(1))
    }
}

impl View<'_> {
    pub(super) fn count(&self) -> usize {
        self.devices.len()
    }

    /// The card at an index, if it can be reached.
    pub(super) fn at(&self, index: usize) -> Result<DeviceHandle, Code> {
        let device = *self.devices.get(index).ok_or(Code::InvalidArgument)?;
        self.card(device).map(|_| device)
    }

    /// The first card for which `wanted` holds.
    pub(super) fn find(&self, wanted: impl Fn(&Card) -> bool) -> Result<DeviceHandle, Code> {
        let is_wanted = |device: &DeviceHandle| self.stored(*device).is_some_and(&wanted);
        let device = self
            .devices
            .iter()
            .copied()
            .find(is_wanted)
            .ok_or(Code::NotFound)?;
        self.card(device).map(|_| device)
    }

    pub(super) fn index(&self, device: DeviceHandle) -> Result<usize, Code> {
        self.card(device)?;
        self.devices
            .iter()
            .position(|known| *known == device)
            .ok_or(Code::InvalidArgument)
    }

    /// The card behind a handle, if it can be reached.
    pub(super) fn card(&self, device: DeviceHandle) -> Result<&Card, Code> {
        if !self.devices.contains(&device) {
            return Err(Code::InvalidArgument);
        }
        self.stored(device)
            .filter(|card| !card.lost)
            .ok_or(Code::GpuIsLost)
    }

    fn uuid(&self, device: DeviceHandle) -> Option<&str> {
        self.known.get(device.0.checked_sub(1)?).map(String::as_str)
    }

    fn stored(&self, device: DeviceHandle) -> Option<&Card> {
        self.hardware.card(self.uuid(device)?)
    }
}

fn lock() -> MutexGuard<'static, State> {
    // A panic is stopped at the interface; each change of the state is complete before anything can panic.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
