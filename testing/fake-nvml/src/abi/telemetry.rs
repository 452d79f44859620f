//! Functions about what a card is doing: load, temperature, power, modes.

use std::ffi::{c_int, c_uint};

use super::code::Code;
use super::types::{Temperature, UtilizationRates, struct_version};
use super::{DeviceHandle, Out, card_questions, exported, read_card};

const TEMPERATURE_V1: c_uint = struct_version::<Temperature>(1);

/// The only sensor that NVML defines: the one on the chip.
const ON_CHIP: c_uint = 0;

card_questions! {
    nvmlDeviceGetUtilizationRates -> UtilizationRates = |card| {
        Ok(UtilizationRates { gpu: card.utilization.gpu, memory: card.utilization.memory })
    };
    nvmlDeviceGetPowerUsage -> c_uint = |card| Ok(card.power_milliwatts);
    nvmlDeviceGetPowerManagementLimit -> c_uint = |card| Ok(card.power_limit_milliwatts);
    nvmlDeviceGetEnforcedPowerLimit -> c_uint = |card| Ok(card.power_limit_milliwatts);
    nvmlDeviceGetPersistenceMode -> c_uint = |card| Ok(card.persistence_mode.into());
    // Any number of processes at once, as on a card fresh from the factory.
    nvmlDeviceGetComputeMode -> c_uint = |_| Ok(0);
    // The fastest state.
    nvmlDeviceGetPerformanceState -> c_uint = |_| Ok(0);
    // No monitor is plugged into a card for computing.
    nvmlDeviceGetDisplayMode -> c_uint = |_| Ok(0);
    nvmlDeviceGetDisplayActive -> c_uint = |_| Ok(0);
}

exported! {
    nvmlDeviceGetTemperature: (device: DeviceHandle, sensor: c_uint, out: Out<c_uint>) => {
        if sensor != ON_CHIP {
            return Err(Code::InvalidArgument);
        }
        out.set(read_card(device, |card| Ok(card.temperature_celsius))?)
    };
    nvmlDeviceGetTemperatureV: (device: DeviceHandle, out: Out<Temperature>) => {
        if out.first_field::<c_uint>().get()? != TEMPERATURE_V1 {
            return Err(Code::ArgumentVersionMismatch);
        }
        let asked = out.get()?;
        if asked.sensor != ON_CHIP {
            return Err(Code::InvalidArgument);
        }
        let celsius = read_card(device, |card| Ok(card.temperature_celsius))?;
        let celsius = c_int::try_from(celsius).map_err(|_| Code::Unknown)?;
        out.set(Temperature { celsius, ..asked })
    };
}
