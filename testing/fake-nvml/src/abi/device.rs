//! Functions that find a card and report its identity and location.

use std::ffi::{c_char, c_int, c_uint, c_ulong};

use super::code::Code;
use super::pointer::fixed_text;
use super::session::view;
use super::types::PciInfo;
use super::{Answer, DeviceHandle, Out, card_questions, exported, read_card, text};
use crate::hardware::Card;

/// NVIDIA's PCI vendor number in the low half, a device number of ours in the high half.
const PCI_DEVICE_AND_VENDOR: c_uint = 0xFA6E_10DE;

card_questions! {
    nvmlDeviceGetMinorNumber -> c_uint = |card| Ok(card.minor);
    nvmlDeviceGetPciInfo_v3 -> PciInfo = pci_info;
    nvmlDeviceGetMaxMigDeviceCount -> c_uint = |_| Ok(0);
    nvmlDeviceIsMigDeviceHandle -> c_uint = |_| Ok(0);
}

exported! {
    nvmlDeviceGetCount, nvmlDeviceGetCount_v2: (out: Out<c_uint>) => {
        out.set(number(view(|view| Ok(view.count()))?)?)
    };
    nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2: (index: c_uint, out: Out<DeviceHandle>) => {
        out.set(view(|view| view.at(index as usize))?)
    };
    nvmlDeviceGetHandleByUUID: (uuid: *const c_char, out: Out<DeviceHandle>) => {
        let uuid = text(uuid)?;
        out.set(view(|view| view.find(|card| card.uuid == uuid))?)
    };
    nvmlDeviceGetHandleBySerial: (serial: *const c_char, out: Out<DeviceHandle>) => {
        let serial = text(serial)?;
        out.set(view(|view| view.find(|card| card.serial.as_ref() == Some(&serial)))?)
    };
    nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2: (id: *const c_char, out: Out<DeviceHandle>) => {
        let id = text(id)?;
        out.set(view(|view| view.find(|card| is_bus_id(card, &id)))?)
    };
    nvmlDeviceGetIndex: (device: DeviceHandle, out: Out<c_uint>) => {
        out.set(number(view(|view| view.index(device))?)?)
    };
    nvmlDeviceGetUUID: (device: DeviceHandle, out: Out<c_char>, room: c_uint) => {
        read_card(device, |card| out.set_text(room, &card.uuid))
    };
    nvmlDeviceGetName: (device: DeviceHandle, out: Out<c_char>, room: c_uint) => {
        read_card(device, |card| out.set_text(room, &card.name))
    };
    nvmlDeviceGetSerial: (device: DeviceHandle, out: Out<c_char>, room: c_uint) => {
        read_card(device, |card| out.set_text(room, card.serial.as_ref().ok_or(Code::NotSupported)?))
    };
    nvmlDeviceGetCudaComputeCapability: (device: DeviceHandle, major: Out<c_int>, minor: Out<c_int>) => {
        let capability = read_card(device, |card| Ok(card.compute_capability))?;
        major.set(capability.0)?;
        minor.set(capability.1)
    };
    nvmlDeviceGetCpuAffinity: (device: DeviceHandle, words: c_uint, out: Out<c_ulong>) => {
        read_card(device, |card| set_bits(out, words, &card.cpus))
    };
    nvmlDeviceGetCpuAffinityWithinScope: (device: DeviceHandle, words: c_uint, out: Out<c_ulong>, _scope: c_uint) => {
        read_card(device, |card| set_bits(out, words, &card.cpus))
    };
    // The NUMA nodes near the card. (`nvmlDeviceGetNumaNodeId` is about cards that are NUMA nodes themselves, which ours
    // are not.)
    nvmlDeviceGetMemoryAffinity: (device: DeviceHandle, words: c_uint, out: Out<c_ulong>, _scope: c_uint) => {
        read_card(device, |card| set_bits(out, words, card.numa_node.as_slice()))
    };
}

/// Clients write the domain with eight digits or with four, and letters in either case.
fn is_bus_id(card: &Card, id: &str) -> bool {
    let short = card.pci_bus_id.strip_prefix("0000");
    card.pci_bus_id.eq_ignore_ascii_case(id)
        || short.is_some_and(|short| short.eq_ignore_ascii_case(id))
}

fn pci_info(card: &Card) -> Result<PciInfo, Code> {
    let (domain, bus, device) = card.pci_address().ok_or(Code::Unknown)?;
    let short = card
        .pci_bus_id
        .strip_prefix("0000")
        .unwrap_or(&card.pci_bus_id);
    Ok(PciInfo {
        bus_id_legacy: fixed_text(short),
        domain,
        bus,
        device,
        device_and_vendor_id: PCI_DEVICE_AND_VENDOR,
        subsystem_id: PCI_DEVICE_AND_VENDOR,
        bus_id: fixed_text(&card.pci_bus_id),
    })
}

/// Writes a set of numbers as the bits of an array; an empty set means that the numbers are unknown.
fn set_bits(out: Out<c_ulong>, words: c_uint, numbers: &[u32]) -> Answer {
    if numbers.is_empty() {
        return Err(Code::NotSupported);
    }
    let mut bits = vec![0; words as usize];
    for number in numbers {
        let word = bits
            .get_mut((number / c_ulong::BITS) as usize)
            .ok_or(Code::InsufficientSize)?;
        *word |= 1 << (number % c_ulong::BITS);
    }
    out.set_all(words, &bits)
}

fn number(value: usize) -> Result<c_uint, Code> {
    c_uint::try_from(value).map_err(|_| Code::Unknown)
}
