//! What clients see when the hardware is lost or its file is broken.

use std::fs;
use std::process;

use gpushare_fake_nvml::Hardware;
use nvml_wrapper::error::NvmlError;

use crate::clients::{Machine, list};
use crate::pynvml::Pynvml;

fn two_cards() -> Hardware {
    Hardware::with_cards(&[("NVIDIA A10", 23_028); 2])
}

#[test]
fn a_lost_card_fails_every_question_and_the_others_answer() {
    let machine = Machine::new(&two_cards());
    let nvml = machine.nvml();
    let (first, second) = (
        nvml.device_by_index(0).unwrap(),
        nvml.device_by_index(1).unwrap(),
    );
    machine.change(|hardware| hardware.cards[0].lost = true);
    assert!(matches!(first.memory_info(), Err(NvmlError::GpuLost)));
    assert!(matches!(first.uuid(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    assert_eq!(
        nvml.device_count().unwrap(),
        2,
        "a lost card still has its index"
    );
    assert!(second.memory_info().is_ok());
    machine.change(|hardware| hardware.cards[0].lost = false);
    assert!(first.memory_info().is_ok(), "the handle outlives the loss");
}

#[test]
fn a_card_taken_out_of_the_file_is_lost() {
    let machine = Machine::new(&two_cards());
    let nvml = machine.nvml();
    let second = nvml.device_by_index(1).unwrap();
    machine.change(|hardware| hardware.cards.truncate(1));
    assert!(matches!(second.uuid(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
}

#[test]
fn clients_that_run_when_the_file_breaks_complain_once_and_recover() {
    let machine = Machine::new(&two_cards());
    let mut pynvml = Pynvml::initialized(&machine);
    let good = pynvml.list().unwrap();
    fs::write(&machine.installed.hardware, "{\"cards\": [").unwrap();
    for _ in 0..3 {
        assert_eq!(pynvml.list().unwrap_err(), "NVMLError_Unknown");
    }
    two_cards().save(&machine.installed.hardware).unwrap();
    assert_eq!(pynvml.list().unwrap(), good);
    let stderr = pynvml.finish();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("hardware.json") && stderr.contains("JSON"),
        "{stderr}"
    );
}

#[test]
fn a_broken_file_at_the_start_reads_as_a_missing_driver() {
    let bad = two_cards();
    let twice = serde_json::to_string(&bad)
        .unwrap()
        .replace(&bad.cards[1].uuid, &bad.cards[0].uuid);
    let busless = serde_json::to_string(&bad)
        .unwrap()
        .replace("00000000:02:00.0", "2");
    let check = |content: &str, complaint: &str| {
        let machine = Machine::new(&two_cards());
        fs::write(&machine.installed.hardware, content).unwrap();
        let mut pynvml = Pynvml::start(&machine);
        assert_eq!(
            pynvml.ask::<()>("init").unwrap_err(),
            "NVMLError_DriverNotLoaded"
        );
        let stderr = pynvml.finish();
        assert!(stderr.contains(complaint), "{stderr}");
    };
    check("", "JSON");
    check("{\"cards\": 3}", "JSON");
    check("{\"cards\": [], \"card\": []}", "unknown field `card`");
    check(&twice, "of an earlier card");
    check(&busless, "bus id \"2\"");
}

#[test]
fn a_library_without_hardware_says_what_to_set() {
    let machine = Machine::new(&two_cards());
    fs::remove_file(&machine.installed.hardware).unwrap();
    let mut pynvml = Pynvml::start(&machine);
    assert_eq!(
        pynvml.ask::<()>("init").unwrap_err(),
        "NVMLError_DriverNotLoaded"
    );
    assert!(pynvml.finish().contains("set GPUSHARE_FAKE_HARDWARE"));
}

#[test]
fn the_environment_names_another_hardware_file() {
    let machine = Machine::new(&two_cards());
    let other = Hardware::with_cards(&[("Tesla T4", 15_360)]);
    let path = machine.installed.directory.join("other.json");
    other.save(&path).unwrap();
    let mut pynvml = Pynvml::start_with(&machine, Some(&path));
    pynvml.ask::<()>("init").unwrap();
    let names: Vec<String> = pynvml
        .list()
        .unwrap()
        .into_iter()
        .map(|card| card.name)
        .collect();
    assert_eq!(names, ["Tesla T4"]);
}

#[test]
fn features_that_the_cards_lack_are_not_supported() {
    let machine = Machine::new(&two_cards());
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.mig_mode(), Err(NvmlError::NotSupported)));
    assert!(matches!(device.serial(), Err(NvmlError::NotSupported)));
    assert!(matches!(device.fan_speed(0), Err(NvmlError::NotSupported)));
}

#[test]
fn shutdowns_count_against_initialisations() {
    let machine = Machine::new(&two_cards());
    let (first, second) = (machine.nvml(), machine.nvml());
    first.shutdown().unwrap();
    assert_eq!(list(&second).unwrap().len(), 2);
    second.shutdown().unwrap();
    assert!(
        machine.try_nvml().is_ok(),
        "after the last shutdown NVML starts anew"
    );
}

#[test]
fn changes_by_many_writers_all_arrive() {
    let machine = Machine::new(&two_cards());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    machine.push_xid("GPU-none", process::id().into());
                }
            });
        }
    });
    let events = Hardware::load(&machine.installed.hardware).unwrap().events;
    let sequences: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=100).collect::<Vec<u64>>());
}
