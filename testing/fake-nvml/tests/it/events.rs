//! Health events reach clients that wait for them.

use std::thread;

use gpushare_fake_nvml::hardware::EventKind;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml};

use crate::clients::Machine;
use crate::pynvml::Pynvml;

/// Longer than any machine needs, so that a wait ends by its event and not by its time.
const LONG: u32 = 120_000;

/// A set that waits for Xids of all cards.
fn subscribe(nvml: &Nvml) -> EventSet<'_> {
    (0..nvml.device_count().unwrap()).fold(nvml.create_event_set().unwrap(), |set, index| {
        let device = nvml.device_by_index(index).unwrap();
        device
            .register_events(EventTypes::CRITICAL_XID_ERROR, set)
            .unwrap()
    })
}

fn next(set: &EventSet<'_>, milliseconds: u32) -> Result<(String, u64), NvmlError> {
    let event = set.wait(milliseconds)?;
    let Some(XidError::Value(xid)) = event.event_data else {
        panic!("not an Xid: {event:?}");
    };
    Ok((event.device.uuid()?, xid))
}

#[test]
fn clients_blocked_in_a_wait_see_an_xid() {
    let (hardware, machine) = Machine::with_two_cards();
    let uuid = hardware.cards[1].uuid.as_str();
    let nvml = machine.nvml();
    let set = subscribe(&nvml);
    let mut pynvml = Pynvml::initialized(&machine);
    pynvml.ask::<()>("subscribe").unwrap();
    pynvml.send(&format!("wait {LONG}"));
    thread::scope(|scope| {
        let waiter = scope.spawn(move || next(&set, LONG));
        machine.push_xid(uuid, 79);
        assert_eq!(waiter.join().unwrap().unwrap(), (uuid.to_owned(), 79));
    });
    assert_eq!(
        pynvml.answer::<(String, u64)>().unwrap(),
        (uuid.to_owned(), 79)
    );
}

#[test]
fn every_client_sees_every_event_once_and_in_order() {
    let (hardware, machine) = Machine::with_two_cards();
    let uuids: Vec<&str> = hardware
        .cards
        .iter()
        .map(|card| card.uuid.as_str())
        .collect();
    let nvml = machine.nvml();
    let (first, second) = (subscribe(&nvml), subscribe(&nvml));
    let mut pynvml = Pynvml::initialized(&machine);
    pynvml.ask::<()>("subscribe").unwrap();
    let sent = [(0, 13), (1, 31), (0, 79), (1, 43), (1, 43)];
    for (card, xid) in sent {
        machine.push_xid(uuids[card], xid);
    }
    let wanted = sent.map(|(card, xid)| (uuids[card].to_owned(), xid));
    for client in [&first, &second] {
        assert_eq!(
            wanted.each_ref().map(|_| next(client, LONG).unwrap()),
            wanted
        );
        assert!(matches!(next(client, 0), Err(NvmlError::Timeout)));
    }
    let wait = format!("wait {LONG}");
    assert_eq!(
        wanted
            .each_ref()
            .map(|_| pynvml.ask::<(String, u64)>(&wait).unwrap()),
        wanted
    );
    assert_eq!(
        pynvml.ask::<(String, u64)>("wait 0").unwrap_err(),
        "NVMLError_Timeout"
    );
}

#[test]
fn events_from_before_the_subscription_stay_unseen() {
    let (hardware, machine) = Machine::with_two_cards();
    let uuid = hardware.cards[0].uuid.clone();
    machine.push_xid(&uuid, 48);
    let nvml = machine.nvml();
    let set = subscribe(&nvml);
    assert!(matches!(next(&set, 0), Err(NvmlError::Timeout)));
    machine.push_xid(&uuid, 63);
    assert_eq!(next(&set, LONG).unwrap(), (uuid, 63));
}

#[test]
fn events_of_other_kinds_and_other_cards_stay_unseen() {
    let (hardware, machine) = Machine::with_two_cards();
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let set = nvml.create_event_set().unwrap();
    let set = device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .unwrap();
    machine.change(|change| {
        change.push_xid(&hardware.cards[1].uuid, 79);
        change.push_event(&hardware.cards[0].uuid, EventKind::DoubleBitEcc, 0);
    });
    assert!(matches!(next(&set, 0), Err(NvmlError::Timeout)));
}

#[test]
fn an_event_of_a_card_comes_before_the_news_that_it_is_lost() {
    let (hardware, machine) = Machine::with_two_cards();
    let uuid = hardware.cards[0].uuid.as_str();
    let nvml = machine.nvml();
    let set = subscribe(&nvml);
    machine.change(|hardware| {
        hardware.push_xid(uuid, 79);
        hardware.card_mut(uuid).unwrap().lost = true;
    });
    let event = set.wait(LONG).unwrap();
    assert!(
        matches!(event.event_data, Some(XidError::Value(79))),
        "{event:?}"
    );
    assert!(matches!(set.wait(LONG), Err(NvmlError::GpuLost)));
}
