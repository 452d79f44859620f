//! All clients list the same cards.

use gpushare_fake_nvml::Hardware;

use crate::clients::Machine;

#[test]
fn nvml_wrapper_lists_the_cards() {
    let hardware =
        Hardware::with_cards(&[("NVIDIA A10", 23_028), ("NVIDIA A100-SXM4-40GB", 40_960)]);
    let machine = Machine::new(&hardware);
    let nvml = machine.nvml();
    assert_eq!(nvml.device_count().unwrap(), 2);
    let device = nvml.device_by_index(1).unwrap();
    assert_eq!(device.uuid().unwrap(), hardware.cards[1].uuid);
    assert_eq!(device.name().unwrap(), "NVIDIA A100-SXM4-40GB");
    assert_eq!(device.memory_info().unwrap().total, 40_960 << 20);
    assert_eq!(device.pci_info().unwrap().bus_id, "00000000:02:00.0");
}
