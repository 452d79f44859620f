//! The kubelet's checkpoint: exactly the containers that hold the ids are found, and every slot name is
//! safe as part of a path.

use std::collections::BTreeSet;

use gpushare_node::identity::checkpoint::{Holder, holders};
use serde_json::Value;

use crate::Verdict;

const RESOURCE: &str = "aliyun.com/gpu-mem";
const IDS: [&str; 2] = ["x", "y"];

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Ok(found) = holders(data, RESOURCE, &BTreeSet::from(IDS)) else {
        return Verdict::Refused;
    };
    // Parts that the parser does not read may be broken.
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return Verdict::Accepted;
    };
    let entries = value.pointer("/Data/PodDeviceEntries");
    let entries = entries
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let expected: Vec<(&str, &str)> = entries
        .iter()
        .filter(|entry| text(entry, "ResourceName") == RESOURCE && ids(entry) == IDS.into())
        .map(|entry| (text(entry, "PodUID"), text(entry, "ContainerName")))
        .collect();
    let name = |holder: &Holder| (holder.pod.to_string(), holder.container.clone());
    let names: Vec<(String, String)> = found.iter().map(name).collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(pod, name)| (&**pod, &**name)).collect();
    assert_eq!(names, expected);
    for holder in &found {
        let slot = holder.slot.as_str();
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(!slot.is_empty() && slot.bytes().all(safe), "{slot:?}");
    }
    Verdict::Accepted
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn ids(entry: &Value) -> BTreeSet<&str> {
    let by_numa_node = entry.get("DeviceIDs").and_then(Value::as_object);
    let all = by_numa_node.into_iter().flat_map(|nodes| nodes.values());
    all.filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
