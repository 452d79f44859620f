//! All clients list the same cards, also while the hardware changes.

use gpushare_fake_nvml::Hardware;
use gpushare_fake_nvml::hardware::{ProcessKind, Utilization};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;

use crate::clients::{Listed, Machine, list, process};
use crate::pynvml::Pynvml;
use crate::smi;

/// NVML's number for "the NUMA node, not the socket".
const NUMA_NODE_SCOPE: u32 = 0;

/// Checks that every client lists exactly the hardware.
fn check(hardware: &Hardware) {
    let machine = Machine::new(hardware);
    let expected = expected(hardware);
    assert_eq!(list(&machine.nvml()).unwrap(), expected, "nvml-wrapper");
    assert_eq!(
        Pynvml::initialized(&machine).list().unwrap(),
        expected,
        "pynvml"
    );
    if !expected.is_empty() {
        assert_eq!(
            smi::list(&machine),
            without_private(&expected),
            "nvidia-smi"
        );
    }
}

fn expected(hardware: &Hardware) -> Vec<Listed> {
    let cards = (0..).zip(&hardware.cards);
    let listed = cards.map(|(index, card)| Listed {
        index,
        uuid: card.uuid.clone(),
        name: card.name.clone(),
        memory_total: card.memory_mib << 20,
        memory_used: card.used_mib() << 20,
        minor: card.minor,
        pci_bus_id: card.pci_bus_id.clone(),
        compute_pids: card.processes.iter().map(|process| process.pid).collect(),
    });
    listed.collect()
}

/// The cards without the fields that nvidia-smi's query has no columns for.
fn without_private(cards: &[Listed]) -> Vec<Listed> {
    let cards = cards.iter().cloned();
    cards
        .map(|card| Listed {
            minor: 0,
            compute_pids: Vec::new(),
            ..card
        })
        .collect()
}

#[test]
fn all_clients_list_no_card() {
    check(&Hardware::default());
}

#[test]
fn all_clients_list_one_card() {
    check(&Hardware::with_cards(&[("NVIDIA A10", 23_028)]));
}

#[test]
fn all_clients_list_cards_of_different_models_and_sizes() {
    check(&Hardware::with_cards(&[
        ("NVIDIA A10", 23_028),
        ("NVIDIA A100-SXM4-80GB", 81_920),
        ("Tesla T4", 15_360),
    ]));
}

#[test]
fn all_clients_list_sixteen_cards() {
    check(&Hardware::with_cards(
        &[("NVIDIA H100 80GB HBM3", 81_559); 16],
    ));
}

#[test]
fn all_clients_list_cards_whose_minor_and_bus_order_differ_from_the_index() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028); 3]);
    hardware.cards[0].minor = 7;
    hardware.cards[0].pci_bus_id = "00000001:C1:00.0".to_owned();
    hardware.cards[2].minor = 0;
    check(&hardware);
}

#[test]
fn all_clients_list_the_memory_and_pids_of_processes() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("Tesla T4", 15_360)]);
    let compute = |pid, mib| process(pid, mib, ProcessKind::Compute);
    hardware.cards[1].processes = vec![compute(4_000_001, 1_024), compute(4_000_002, 2_048)];
    check(&hardware);
}

#[test]
fn running_clients_see_a_card_change() {
    let machine = Machine::new(&Hardware::with_cards(&[("NVIDIA A10", 23_028); 2]));
    let nvml = machine.nvml();
    let mut pynvml = Pynvml::initialized(&machine);
    let device = nvml.device_by_index(1).unwrap();
    machine.change(|hardware| {
        let card = &mut hardware.cards[1];
        card.name = "NVIDIA A40".to_owned();
        card.memory_mib = 46_068;
        card.processes = vec![process(4_000_001, 512, ProcessKind::Compute)];
        card.utilization = Utilization {
            gpu: 87,
            memory: 21,
        };
        card.temperature_celsius = 71;
        card.power_milliwatts = 140_500;
    });
    let now = expected(&Hardware::load(&machine.installed.hardware).unwrap());
    assert_eq!(list(&nvml).unwrap(), now);
    assert_eq!(pynvml.list().unwrap(), now);
    assert_eq!(device.utilization_rates().unwrap().gpu, 87);
    assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), 71);
    assert_eq!(device.power_usage().unwrap(), 140_500);
}

#[test]
fn a_card_plugged_in_later_shows_up_after_the_next_initialisation() {
    let machine = Machine::new(&Hardware::with_cards(&[("NVIDIA A10", 23_028)]));
    let nvml = machine.nvml();
    machine.change(|hardware| {
        *hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("Tesla T4", 15_360)]);
    });
    assert_eq!(
        nvml.device_count().unwrap(),
        1,
        "the driver lists its cards once"
    );
    drop(nvml);
    assert_eq!(machine.nvml().device_count().unwrap(), 2);
}

#[test]
fn a_card_is_found_by_its_uuid_and_by_its_bus_id() {
    let (hardware, machine) = Machine::with_two_cards();
    let nvml = machine.nvml();
    let card = &hardware.cards[1];
    assert_eq!(
        nvml.device_by_uuid(card.uuid.as_str())
            .unwrap()
            .index()
            .unwrap(),
        1
    );
    for id in ["00000000:02:00.0", "0000:02:00.0"] {
        assert_eq!(
            nvml.device_by_pci_bus_id(id).unwrap().uuid().unwrap(),
            card.uuid,
            "{id}"
        );
    }
}

#[test]
fn memory_kept_by_the_driver_is_neither_free_nor_used() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 1_000)]);
    hardware.cards[0].reserved_mib = 100;
    hardware.cards[0].processes = vec![process(4_000_001, 300, ProcessKind::Graphics)];
    let machine = Machine::new(&hardware);
    let memory = machine
        .nvml()
        .device_by_index(0)
        .unwrap()
        .memory_info()
        .unwrap();
    let mib = [memory.total, memory.reserved, memory.used, memory.free].map(|bytes| bytes >> 20);
    assert_eq!(mib, [1_000, 100, 300, 600]);
}

#[test]
fn a_card_names_the_cpus_and_the_numa_node_near_it() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028), ("NVIDIA A10", 23_028)]);
    hardware.cards[0].cpus = vec![0, 3, 64];
    hardware.cards[0].numa_node = Some(1);
    let machine = Machine::new(&hardware);
    let nvml = machine.nvml();
    let (near, unknown) = (
        nvml.device_by_index(0).unwrap(),
        nvml.device_by_index(1).unwrap(),
    );
    assert_eq!(near.cpu_affinity(2).unwrap(), [0b1001, 1]);
    assert!(matches!(
        near.cpu_affinity(1),
        Err(NvmlError::InsufficientSize(_))
    ));
    assert_eq!(near.memory_affinity(1, NUMA_NODE_SCOPE).unwrap(), [0b10]);
    assert!(matches!(
        unknown.cpu_affinity(2),
        Err(NvmlError::NotSupported)
    ));
}

#[test]
fn two_machines_in_one_process_keep_their_cards_apart() {
    let first = Machine::new(&Hardware::on_machine(1, &[("NVIDIA A10", 23_028)]));
    let second = Machine::new(&Hardware::on_machine(2, &[("Tesla T4", 15_360); 2]));
    let (first, second) = (first.nvml(), second.nvml());
    let uuids = |nvml| {
        list(nvml)
            .unwrap()
            .into_iter()
            .map(|card| card.uuid)
            .collect::<Vec<_>>()
    };
    assert_eq!((uuids(&first).len(), uuids(&second).len()), (1, 2));
    assert!(!uuids(&second).contains(&uuids(&first)[0]));
}
