use gpushare_kubelet_api::deviceplugin::CdiDevice;

use super::*;

const RESOURCE: &str = "aliyun.com/gpu-mem";

fn answer(names: &[&str]) -> String {
    let cdi_devices = names
        .iter()
        .map(|name| CdiDevice {
            name: (*name).to_owned(),
        })
        .collect();
    STANDARD.encode(ContainerAllocateResponse { cdi_devices }.encode_to_vec())
}

fn file(entries: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"Data":{{"PodDeviceEntries":{entries},"RegisteredDevices":{{}}}},"Checksum":1}}"#
    );
    text.into_bytes()
}

fn entry(pod: &str, resource: &str, ids: &str, answer: &str) -> String {
    format!(
        r#"{{"PodUID":"{pod}","ContainerName":"c","ResourceName":"{resource}","DeviceIDs":{ids},"AllocResp":"{answer}"}}"#
    )
}

fn find(file: &[u8], ids: &[&str]) -> Result<Vec<Holder>, CheckpointError> {
    holders(file, RESOURCE, &ids.iter().copied().collect())
}

#[test]
fn a_container_is_found_by_exactly_its_ids_whatever_their_order_and_numa_node() {
    let ours = answer(&["gpushare.io/slot=abc-1"]);
    let file = file(&format!(
        "[{},{},{}]",
        entry("a", RESOURCE, r#"{"-1":["x","y"]}"#, &ours),
        entry("b", RESOURCE, r#"{"0":["z"],"1":["x"]}"#, &ours),
        entry("c", "example.com/other", r#"{"-1":["x","z"]}"#, &ours),
    ));
    let found = find(&file, &["z", "x"]).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pod, "b".into());
    assert_eq!(found[0].slot.as_str(), "abc-1");
    assert!(find(&file, &["x"]).unwrap().is_empty());
    assert!(find(&file, &["x", "y", "z"]).unwrap().is_empty());
}

#[test]
fn an_empty_checkpoint_holds_nobody() {
    assert!(find(&file("null"), &["x"]).unwrap().is_empty());
}

#[test]
fn an_answer_that_is_not_ours_is_refused_and_the_way_out_is_named() {
    for answer in [
        "",
        "%%%",
        &answer(&[]),
        &answer(&["nvidia.com/gpu=0"]),
        &answer(&["gpushare.io/slot=a", "gpushare.io/slot=b"]),
    ] {
        let file = file(&format!(
            "[{}]",
            entry("a", RESOURCE, r#"{"-1":["x"]}"#, answer)
        ));
        let error = find(&file, &["x"]).unwrap_err();
        assert!(error.to_string().contains("delete the pod"), "{error}");
    }
}

#[test]
fn a_file_in_another_format_is_refused() {
    for text in ["", "{", "{}", r#"{"Data":{"PodDeviceEntries":[{}]}}"#] {
        let error = find(text.as_bytes(), &["x"]).unwrap_err();
        assert!(
            matches!(error, CheckpointError::Format(_)),
            "{text}: {error}"
        );
    }
}

/// As a kubelet 1.36 wrote it.
#[test]
fn the_file_of_a_real_kubelet_is_understood() {
    let text = br#"{"Data":{"PodDeviceEntries":[{"PodUID":"58a4b05e-cc77-43af-8517-2a358be446ba","ContainerName":"c",
        "ResourceName":"example.com/slice","DeviceIDs":{"-1":["d-1","d-2","d-0"]},"AllocResp":"KgA="}],"RegisteredDevices":{"example.com/slice":["d-0","d-1"]}},"Checksum":2143313658}"#;
    let ids = BTreeSet::from(["d-0", "d-1", "d-2"]);
    let error = holders(text, "example.com/slice", &ids).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Answer { ref container, .. } if container == "c"),
        "the entry is found, though its answer is not ours: {error}"
    );
}
