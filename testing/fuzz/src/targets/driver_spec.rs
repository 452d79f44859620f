//! The driver's CDI specs, in JSON and in YAML: what a container gets from them never sets a variable of ours, and is
//! kept in our own file.

use gpushare_core::CardId;
use gpushare_node::cdi::nvidia::{DriverEdits, Format};
use gpushare_node::cdi::{ContainerEdits, Owner, Slot, SlotName};

use super::on_text;
use crate::Verdict;

const OURS: &str = "NVIDIA_VISIBLE_DEVICES=GPU-a";

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let read: Vec<DriverEdits> = [Format::Json, Format::Yaml]
            .into_iter()
            .filter_map(|format| {
                let card = CardId::new("GPU-a");
                DriverEdits::of_spec(format, text, std::iter::once(&card))
            })
            .collect();
        if read.is_empty() {
            return Verdict::Refused;
        }
        read.into_iter().for_each(passes_on);
        Verdict::Accepted
    })
}

fn passes_on(driver: DriverEdits) {
    let ours = ContainerEdits {
        env: vec![OURS.to_owned()],
        ..ContainerEdits::default()
    };
    let (version, edits) = driver.beneath(&ours);
    let variable = |text: &&String| text.split('=').next() == Some("NVIDIA_VISIBLE_DEVICES");
    let set: Vec<&String> = edits.env.iter().filter(variable).collect();
    assert_eq!(set, [OURS]);
    let slot = Slot {
        name: SlotName::fresh(&[]),
        owner: Owner {
            pod: "u".into(),
            pod_name: String::new(),
            container: String::new(),
            record: String::new(),
        },
        version,
        edits,
    };
    assert_eq!(Slot::decode(slot.encode().as_bytes()), Some(slot));
}
