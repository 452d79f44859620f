//! NVML's C structs, field by field as its header lays them out.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use super::session::DeviceHandle;

/// `nvmlMemory_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) total: c_ulonglong,
    pub(super) free: c_ulonglong,
    pub(super) used: c_ulonglong,
}

/// `nvmlMemory_v2_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryV2 {
    pub(super) version: c_uint,
    pub(super) total: c_ulonglong,
    pub(super) reserved: c_ulonglong,
    pub(super) free: c_ulonglong,
    pub(super) used: c_ulonglong,
}

/// `nvmlPciInfo_t` as `nvmlDeviceGetPciInfo_v3` fills it
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct PciInfo {
    pub(super) bus_id_legacy: [c_char; 16],
    pub(super) domain: c_uint,
    pub(super) bus: c_uint,
    pub(super) device: c_uint,
    pub(super) device_and_vendor_id: c_uint,
    pub(super) subsystem_id: c_uint,
    pub(super) bus_id: [c_char; 32],
}

/// `nvmlUtilization_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct UtilizationRates {
    pub(super) gpu: c_uint,
    pub(super) memory: c_uint,
}

/// `nvmlProcessInfo_v1_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessInfoV1 {
    pub(super) pid: c_uint,
    pub(super) used_memory: c_ulonglong,
}

/// `nvmlProcessInfo_t`, for versions 2 and 3 of the process functions
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessInfo {
    pub(super) pid: c_uint,
    pub(super) used_memory: c_ulonglong,
    pub(super) gpu_instance: c_uint,
    pub(super) compute_instance: c_uint,
}

/// `nvmlTemperature_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Temperature {
    pub(super) version: c_uint,
    pub(super) sensor: c_uint,
    pub(super) celsius: c_int,
}

/// `nvmlEventData_t`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct EventData {
    pub(super) device: DeviceHandle,
    pub(super) kind: c_ulonglong,
    pub(super) data: c_ulonglong,
    pub(super) gpu_instance: c_uint,
    pub(super) compute_instance: c_uint,
}

/// What NVML writes for "no MIG instance".
pub(super) const NO_INSTANCE: c_uint = c_uint::MAX;

/// The version number that a caller must put into a versioned struct.
pub(super) const fn struct_version<T>(version: c_uint) -> c_uint {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the structs are a few dozen bytes long"
    )]
    let size = size_of::<T>() as c_uint;
    size | (version << 24)
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use nvml_wrapper_sys::bindings as theirs;

    use super::*;

    fn check<Ours, Theirs>(ours: &[usize], theirs: &[usize]) {
        let name = std::any::type_name::<Ours>();
        assert_eq!(size_of::<Ours>(), size_of::<Theirs>(), "size of {name}");
        assert_eq!(
            align_of::<Ours>(),
            align_of::<Theirs>(),
            "alignment of {name}"
        );
        assert_eq!(ours, theirs, "offsets of the fields of {name}");
    }

    macro_rules! offsets {
        ($type:ty: $($field:ident),*) => { &[$(offset_of!($type, $field)),*] };
    }

    #[test]
    fn structs_have_the_layout_of_the_nvml_header() {
        check::<Memory, theirs::nvmlMemory_t>(
            offsets!(Memory: total, free, used),
            offsets!(theirs::nvmlMemory_t: total, free, used),
        );
        check::<MemoryV2, theirs::nvmlMemory_v2_t>(
            offsets!(MemoryV2: version, total, reserved, free, used),
            offsets!(theirs::nvmlMemory_v2_t: version, total, reserved, free, used),
        );
        check::<PciInfo, theirs::nvmlPciInfo_t>(
            offsets!(PciInfo: bus_id_legacy, domain, bus, device, device_and_vendor_id, subsystem_id, bus_id),
            offsets!(theirs::nvmlPciInfo_t: busIdLegacy, domain, bus, device, pciDeviceId, pciSubSystemId, busId),
        );
        check::<UtilizationRates, theirs::nvmlUtilization_t>(
            offsets!(UtilizationRates: gpu, memory),
            offsets!(theirs::nvmlUtilization_t: gpu, memory),
        );
        check::<ProcessInfoV1, theirs::nvmlProcessInfo_v1_t>(
            offsets!(ProcessInfoV1: pid, used_memory),
            offsets!(theirs::nvmlProcessInfo_v1_t: pid, usedGpuMemory),
        );
        check::<ProcessInfo, theirs::nvmlProcessInfo_t>(
            offsets!(ProcessInfo: pid, used_memory, gpu_instance, compute_instance),
            offsets!(theirs::nvmlProcessInfo_t: pid, usedGpuMemory, gpuInstanceId, computeInstanceId),
        );
        check::<Temperature, theirs::nvmlTemperature_v1_t>(
            offsets!(Temperature: version, sensor, celsius),
            offsets!(theirs::nvmlTemperature_v1_t: version, sensorType, temperature),
        );
        check::<EventData, theirs::nvmlEventData_t>(
            offsets!(EventData: device, kind, data, gpu_instance, compute_instance),
            offsets!(theirs::nvmlEventData_t: device, eventType, eventData, gpuInstanceId, computeInstanceId),
        );
    }
}
