//! One session with the driver: read the cards, then listen for errors and look again now and then.

use std::time::{Duration, Instant};

use gpushare_core::gpu::{self, CORE, MEMORY, WHOLE_CORE};
use gpushare_core::{Amounts, Card, CardId};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::event::EventData;
use nvml_wrapper::{Device, EventSet, Nvml};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{DriverError, Memory, NAP, nap, set};
use crate::cards::{Cards, sick};

const MIB: u64 = 1024 * 1024;
/// How often the cards of an open session are read again, to find those that fell off the bus.
const LOOK: Duration = Duration::from_secs(5);
/// Xids that are caused by a faulty application and leave the card healthy.
const APPLICATION_XIDS: [u64; 6] = [13, 31, 43, 45, 68, 109];
/// Stands for an error whose number the driver does not know.
const UNKNOWN_XID: u64 = 0;

/// Returns `Ok` when it is time to reopen the driver, or to stop.
pub(super) fn run(
    nvml: &Nvml,
    length: Duration,
    cards: &watch::Sender<Cards>,
    memory: &mut Memory,
    stop: &CancellationToken,
) -> Result<(), DriverError> {
    // Subscribe before the first read, so that no error is missed between the two.
    let events = subscribe(nvml)?;
    let end = Instant::now() + length;
    let mut look = Instant::now();
    while !stop.is_cancelled() && Instant::now() < end {
        if Instant::now() >= look {
            refresh(nvml, cards, memory)?;
            look = Instant::now() + LOOK;
        }
        let Some(events) = &events else {
            nap(NAP, stop);
            continue;
        };
        match events.wait(u32::try_from(NAP.as_millis()).unwrap_or(u32::MAX)) {
            Ok(event) => {
                if condemn(&event, cards, memory) {
                    look = Instant::now();
                }
            }
            Err(NvmlError::Timeout) => {}
            // Reading the cards shows which one it is. The driver returns this error at every wait.
            Err(NvmlError::GpuLost) => {
                refresh(nvml, cards, memory)?;
                nap(NAP, stop);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads all cards and publishes them.
fn refresh(
    nvml: &Nvml,
    cards: &watch::Sender<Cards>,
    memory: &mut Memory,
) -> Result<(), DriverError> {
    let before = cards.borrow().known().cloned().unwrap_or_default();
    let (mut now, errors) = read(nvml, &before)?;
    if errors.len() != memory.silent {
        tracing::warn!(
            silent = errors.len(),
            ?errors,
            "the number of cards that do not answer changed"
        );
        memory.silent = errors.len();
    }
    for card in &mut now {
        card.healthy &= !memory.condemned.contains_key(&card.id);
    }
    now.sort_by_key(|card| card.index);
    set(cards, Cards::Known(now.into()));
    Ok(())
}

/// The cards that answer, and, as sick, those seen before that no longer answer; also the errors of
/// the cards that do not answer. A card that the driver no longer counts was removed, and is
/// omitted.
fn read(nvml: &Nvml, before: &[Card]) -> Result<(Vec<Card>, Vec<String>), NvmlError> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for index in 0..nvml.device_count()? {
        match nvml
            .device_by_index(index)
            .and_then(|device| describe(index, &device))
        {
            Ok(card) => found.push(card),
            Err(error) => errors.push(format!("card {index}: {error}")),
        }
    }
    if !errors.is_empty() {
        let lost: Vec<Card> = before
            .iter()
            .filter(|card| found.iter().all(|found| found.id != card.id))
            .map(sick)
            .collect();
        found.extend(lost);
    }
    Ok((found, errors))
}

fn describe(index: u32, device: &Device<'_>) -> Result<Card, NvmlError> {
    let memory = device.memory_info()?.total / MIB;
    Ok(Card {
        id: CardId::new(device.uuid()?),
        class: gpu::CLASS.into(),
        index,
        model: device.name()?.into(),
        capacity: Amounts::of(MEMORY, memory).with(CORE, WHOLE_CORE),
        healthy: true,
    })
}

/// Subscribes to the events of every card that supports it; `None` if there is none.
fn subscribe(nvml: &Nvml) -> Result<Option<EventSet<'_>>, DriverError> {
    let xid = EventTypes::CRITICAL_XID_ERROR;
    let mut devices: Vec<Device<'_>> = (0..nvml.device_count()?)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .filter(|device| {
            device
                .supported_event_types()
                .is_ok_and(|types| types.contains(xid))
        })
        .collect();
    // A failed registration consumes the whole set, so begin again without that card.
    'anew: while !devices.is_empty() {
        let mut events = nvml.create_event_set()?;
        for (position, device) in devices.iter().enumerate() {
            match device.register_events(xid, events) {
                Ok(registered) => events = registered,
                Err(error) => {
                    tracing::warn!(error = %error.error, "cannot listen for errors of a card");
                    devices.remove(position);
                    continue 'anew;
                }
            }
        }
        return Ok(Some(events));
    }
    Ok(None)
}

/// Records the card of a permanent error; returns whether that is new.
fn condemn(event: &EventData<'_>, cards: &watch::Sender<Cards>, memory: &mut Memory) -> bool {
    let xid = match event.event_data {
        Some(XidError::Value(xid)) => xid,
        Some(XidError::Unknown) => UNKNOWN_XID,
        None => return false,
    };
    if APPLICATION_XIDS.contains(&xid) {
        tracing::info!(
            xid,
            "an application caused an error on a card, the card is in order"
        );
        return false;
    }
    let ids: Vec<CardId> = if let Ok(uuid) = event.device.uuid() {
        vec![CardId::new(uuid)]
    } else {
        // An error without a card, or of a card that is gone: it may concern any of them.
        let all = cards.borrow().known().cloned().unwrap_or_default();
        all.iter().map(|card| card.id.clone()).collect()
    };
    for card in &ids {
        tracing::error!(
            %card, xid,
            "a card reported an error that does not pass; it takes no new pods until the agent restarts"
        );
        memory.condemned.insert(card.clone(), xid);
    }
    !ids.is_empty()
}
