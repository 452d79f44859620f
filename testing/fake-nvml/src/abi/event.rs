//! Health events: sets of subscriptions and the wait for the next event of a set.

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong};
use std::thread;
use std::time::{Duration, Instant};

use super::code::Code;
use super::session::{View, view};
use super::types::{EventData, NO_INSTANCE};
use super::{Answer, DeviceHandle, Out, card_questions, exported};
use crate::hardware::{Event, EventKind};

/// How often a waiting client looks at the hardware file.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What clients hold as `nvmlEventSet_t`, never null.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventSetHandle(usize);

/// The event sets of a session.
#[derive(Debug, Default)]
pub(super) struct EventSets {
    created: usize,
    sets: BTreeMap<EventSetHandle, BTreeMap<DeviceHandle, Subscription>>,
}

/// One card in an event set.
#[derive(Debug)]
struct Subscription {
    uuid: String,
    kinds: c_ulonglong,
    /// The newest event that this set has handed out or that came before the subscription.
    seen: u64,
}

card_questions! {
    nvmlDeviceGetSupportedEventTypes -> c_ulonglong = |_| Ok(SUPPORTED);
}

exported! {
    nvmlEventSetCreate: (out: Out<EventSetHandle>) => view(|view| {
        view.event_sets.created = view.event_sets.created.saturating_add(1);
        let handle = EventSetHandle(view.event_sets.created);
        out.set(handle)?;
        view.event_sets.sets.insert(handle, BTreeMap::new());
        Ok(())
    });
    nvmlDeviceRegisterEvents: (device: DeviceHandle, kinds: c_ulonglong, set: EventSetHandle) => {
        view(|view| subscribe(view, device, kinds, set))
    };
    nvmlEventSetWait, nvmlEventSetWait_v2: (set: EventSetHandle, out: Out<EventData>, milliseconds: c_uint) => {
        wait(set, out, milliseconds)
    };
    nvmlEventSetFree: (set: EventSetHandle) => {
        view(|view| view.event_sets.sets.remove(&set).map(drop).ok_or(Code::InvalidArgument))
    };
}

const SUPPORTED: c_ulonglong =
    bit(EventKind::SingleBitEcc) | bit(EventKind::DoubleBitEcc) | bit(EventKind::Xid);

const fn bit(kind: EventKind) -> c_ulonglong {
    match kind {
        EventKind::SingleBitEcc => 1,
        EventKind::DoubleBitEcc => 2,
        EventKind::Xid => 8,
    }
}

fn subscribe(
    view: &mut View<'_>,
    device: DeviceHandle,
    kinds: c_ulonglong,
    set: EventSetHandle,
) -> Answer {
    let uuid = view.card(device)?.uuid.clone();
    if kinds & !SUPPORTED != 0 {
        return Err(Code::NotSupported);
    }
    let seen = view.hardware.last_event();
    let subscriptions = view
        .event_sets
        .sets
        .get_mut(&set)
        .ok_or(Code::InvalidArgument)?;
    let card = subscriptions.entry(device).or_insert(Subscription {
        uuid,
        kinds: 0,
        seen,
    });
    card.kinds |= kinds;
    Ok(())
}

fn wait(set: EventSetHandle, out: Out<EventData>, milliseconds: c_uint) -> Answer {
    if out.is_null() {
        return Err(Code::InvalidArgument);
    }
    let start = Instant::now();
    let patience = Duration::from_millis(milliseconds.into());
    loop {
        if let Some(event) = view(|view| next_event(view, set))? {
            return out.set(event);
        }
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(Code::Timeout);
        }
        // Outside the lock, so that other threads can ask while this one waits.
        thread::sleep(left.min(LOOK_INTERVAL));
    }
}

/// The oldest event that this set has not handed out yet; if there is none, a lost card is reported.
fn next_event(view: &mut View<'_>, set: EventSetHandle) -> Result<Option<EventData>, Code> {
    let subscriptions = view
        .event_sets
        .sets
        .get(&set)
        .ok_or(Code::InvalidArgument)?;
    let pending = view.hardware.events.iter().filter_map(|event| {
        let (device, _) = subscriptions.iter().find(|(_, card)| card.wants(event))?;
        Some((*device, event))
    });
    let Some((device, event)) = pending.min_by_key(|(_, event)| event.sequence) else {
        let lost = subscriptions
            .keys()
            .find_map(|device| view.card(*device).err());
        return lost.map_or(Ok(None), Err);
    };
    if let Some(card) = view
        .event_sets
        .sets
        .get_mut(&set)
        .and_then(|set| set.get_mut(&device))
    {
        card.seen = event.sequence;
    }
    Ok(Some(EventData {
        device,
        kind: bit(event.kind),
        data: event.data,
        gpu_instance: NO_INSTANCE,
        compute_instance: NO_INSTANCE,
    }))
}

impl Subscription {
    fn wants(&self, event: &Event) -> bool {
        event.uuid == self.uuid && event.sequence > self.seen && bit(event.kind) & self.kinds != 0
    }
}
