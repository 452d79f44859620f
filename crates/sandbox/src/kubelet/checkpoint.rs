//! The kubelet's checkpoint of device allocations, from which the agent learns whose container is starting.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpushare_kubelet_api::deviceplugin::CHECKPOINT;
use prost::Message;
use serde_json::json;

use super::devices::Devices;

/// Writes the file in one step.
pub(super) fn write(devices: &Devices) -> Result<(), String> {
    // The lock is held to the end, so that an older state never overwrites a newer one.
    let memory = devices.memory.lock();
    let entries: Vec<_> = memory
        .allocations
        .iter()
        .map(|allocation| {
            json!({
                "PodUID": allocation.uid,
                "ContainerName": allocation.container,
                "ResourceName": allocation.resource,
                "DeviceIDs": {"-1": allocation.ids},
                "AllocResp": STANDARD.encode(allocation.answer.encode_to_vec()),
            })
        })
        .collect();
    let text =
        json!({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0});
    let unfinished = devices.directory.join(".checkpoint");
    std::fs::write(&unfinished, text.to_string())
        .and_then(|()| std::fs::rename(&unfinished, devices.directory.join(CHECKPOINT)))
        .map_err(|error| format!("cannot write the checkpoint: {error}"))
}
