//! The real nvidia-smi on the fake library.

use std::process::{Command, Output};

use gpushare_fake_nvml::hardware::ProcessKind;
use gpushare_fake_nvml::{HARDWARE_ENV, Hardware};

use crate::clients::{Listed, Machine, process, program};

/// The cards as nvidia-smi lists them; it has no column for the minor number.
pub(crate) fn list(machine: &Machine) -> Vec<Listed> {
    let columns = "--query-gpu=index,uuid,name,memory.total,memory.used,pci.bus_id";
    let cards = succeed(machine, &[columns, "--format=csv,noheader,nounits"]);
    cards
        .lines()
        .map(|line| parse(&line.split(", ").collect::<Vec<_>>()))
        .collect()
}

fn parse(columns: &[&str]) -> Listed {
    let [index, uuid, name, memory_total, memory_used, pci_bus_id] = columns else {
        panic!("nvidia-smi printed {columns:?}");
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Listed {
        index: u32::try_from(number(index)).expect("a small number"),
        uuid: (*uuid).to_owned(),
        name: (*name).to_owned(),
        memory_total: number(memory_total) << 20,
        memory_used: number(memory_used) << 20,
        minor: 0,
        pci_bus_id: (*pci_bus_id).to_owned(),
        compute_pids: Vec::new(),
    }
}

fn run(machine: &Machine, arguments: &[&str]) -> Output {
    let smi = program(
        "GPUSHARE_NVIDIA_SMI",
        "the nvidia-smi of Debian's package of that name",
    );
    Command::new(smi)
        .args(arguments)
        .env("LD_LIBRARY_PATH", &machine.installed.directory)
        .env_remove(HARDWARE_ENV)
        .output()
        .expect("GPUSHARE_NVIDIA_SMI starts")
}

fn succeed(machine: &Machine, arguments: &[&str]) -> String {
    let output = run(machine, arguments);
    assert!(
        output.status.success(),
        "nvidia-smi {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).expect("nvidia-smi prints text")
}

#[test]
fn nvidia_smi_lists_uuids() {
    let (hardware, machine) = Machine::with_two_cards();
    let expected = format!(
        "GPU 0: NVIDIA A10 (UUID: {})\nGPU 1: Tesla T4 (UUID: {})\n",
        hardware.cards[0].uuid, hardware.cards[1].uuid
    );
    assert_eq!(succeed(&machine, &["-L"]), expected);
}

#[test]
fn nvidia_smi_draws_its_table_with_memory_and_processes() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028)]);
    let pid = std::process::id();
    hardware.cards[0].processes = vec![process(pid, 3_072, ProcessKind::Compute)];
    let machine = Machine::new(&hardware);
    let table = succeed(&machine, &[]);
    let version = format!("Driver Version: {}", hardware.driver_version);
    for part in [
        &version,
        "NVIDIA A10",
        "3072MiB / 23028MiB",
        &pid.to_string(),
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    assert!(!table.contains("ERR!"), "{table}");
}

#[test]
fn nvidia_smi_lists_the_memory_of_processes() {
    let mut hardware = Hardware::with_cards(&[("NVIDIA A10", 23_028)]);
    hardware.cards[0].processes = vec![
        process(4_000_001, 100, ProcessKind::Compute),
        process(4_000_002, 200, ProcessKind::Graphics),
        process(4_000_003, 300, ProcessKind::Compute),
    ];
    let machine = Machine::new(&hardware);
    let columns = "--query-compute-apps=pid,used_memory";
    let list = succeed(&machine, &[columns, "--format=csv,noheader"]);
    assert_eq!(list, "4000001, 100 MiB\n4000003, 300 MiB\n");
}

#[test]
fn nvidia_smi_reports_a_machine_without_driver() {
    let machine = Machine::new(&Hardware::default());
    std::fs::remove_file(&machine.installed.hardware).unwrap();
    let output = run(&machine, &["-L"]);
    assert!(!output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("driver"), "{output:?}");
}
