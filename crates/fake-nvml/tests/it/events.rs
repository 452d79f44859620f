//! Health events reach clients that wait for them.

use std::thread;

use gpushare_fake_nvml::Hardware;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;

use crate::clients::Machine;

#[test]
fn a_client_blocked_in_a_wait_sees_an_xid() {
    let hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028)]);
    let uuid = hardware.cards[0].uuid.clone();
    let machine = Machine::new(&hardware);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let set = nvml.create_event_set().unwrap();
    let set = device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let event = set.wait(60_000).unwrap();
            (event.device.uuid().unwrap(), event.event_data)
        });
        machine.change(|hardware| {
            hardware.push_xid(&uuid, 79);
        });
        let (seen, data) = waiter.join().unwrap();
        assert_eq!(seen, uuid);
        assert!(matches!(data, Some(XidError::Value(79))), "{data:?}");
    });
}
