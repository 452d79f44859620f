//! The kubelet's PodResources answer: exactly the containers that hold the ids are found.
//!
//! Input: the answer as protobuf, in base64, so that kept inputs are text.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpushare_kubelet_api::podresources::ListPodResourcesResponse;
use gpushare_node::identity::podresources::holders;
use prost::Message;

use crate::Verdict;

const RESOURCE: &str = "aliyun.com/gpu-mem";
const IDS: [&str; 2] = ["x", "y"];

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Ok(bytes) = STANDARD.decode(data) else {
        return Verdict::Refused;
    };
    let Ok(list) = ListPodResourcesResponse::decode(bytes.as_slice()) else {
        return Verdict::Refused;
    };
    let found = holders(&list, RESOURCE, &BTreeSet::from(IDS));
    let mut expected = Vec::new();
    for pod in &list.pod_resources {
        for container in &pod.containers {
            let mut held = BTreeSet::new();
            for devices in &container.devices {
                if devices.resource_name == RESOURCE {
                    held.extend(devices.device_ids.iter().map(String::as_str));
                }
            }
            if held == BTreeSet::from(IDS) {
                expected.push((&pod.namespace, &pod.name, &container.name));
            }
        }
    }
    let found: Vec<_> = found
        .iter()
        .map(|listed| (&listed.namespace, &listed.pod, &listed.container))
        .collect();
    assert_eq!(found, expected);
    Verdict::Accepted
}
