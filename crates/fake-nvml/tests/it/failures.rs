//! What clients see when the hardware is gone or its file is broken.

use gpushare_fake_nvml::Hardware;
use nvml_wrapper::error::NvmlError;

use crate::clients::Machine;

#[test]
fn a_lost_card_fails_every_question_and_the_others_answer() {
    let hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("NVIDIA A10", 23_028)]);
    let machine = Machine::new(&hardware);
    let nvml = machine.nvml();
    let (first, second) = (
        nvml.device_by_index(0).unwrap(),
        nvml.device_by_index(1).unwrap(),
    );
    machine.change(|hardware| hardware.cards[0].lost = true);
    assert!(matches!(first.memory_info(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    assert!(second.memory_info().is_ok());
}
