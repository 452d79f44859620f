//! The file of additional device classes: an accepted file does not change the GPUs, gives every resource one meaning,
//! and none of its requests can break the validator.

use std::collections::BTreeSet;

use gpushare_core::devices::Devices;
use gpushare_core::dialect::{Dialects, Scale};
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_core::request::Role;
use gpushare_core::validate::{ContainerView, PodView, validate};

use super::on_text;
use crate::Verdict;

const AMOUNTS: [&str; 4] = ["1", "0", "9223372036854775807", "1500m"];

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let Ok(devices) = serde_saphyr::from_str::<Devices>(text) else {
            return Verdict::Refused;
        };
        let gpus = gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        });
        match devices.add_to(gpus.clone()) {
            Ok(all) => {
                check_added(&gpus, &all);
                check_requests(&all);
                Verdict::Accepted
            }
            Err(mistake) => {
                assert!(!mistake.to_string().is_empty());
                Verdict::Refused
            }
        }
    })
}

fn check_added(gpus: &Dialects, all: &Dialects) {
    assert!(all.dialects.starts_with(&gpus.dialects));
    assert!(all.choosers.starts_with(&gpus.choosers));
    let resources: Vec<&str> = all.resources().map(|name| &**name).collect();
    let different: BTreeSet<&str> = resources.iter().copied().collect();
    assert_eq!(
        different.len(),
        resources.len(),
        "a resource means two things"
    );
    for dialect in &all.dialects {
        let class = all.class(&dialect.class).expect("a class that is there");
        assert!(dialect.resources().next().is_some());
        for part in &dialect.parts {
            let dimension = class.dimension(part.dimension);
            assert!(dimension.is_some(), "a part of nothing");
            if let Scale::Units { each, .. } = part.scale {
                assert!(each > 0);
            }
        }
    }
}

fn check_requests(dialects: &Dialects) {
    for resource in dialects.resources() {
        for amount in AMOUNTS {
            let pod = PodView {
                containers: vec![ContainerView {
                    name: "c",
                    role: Role::App,
                    index: 0,
                    limits: vec![(resource, amount)],
                }],
                annotations: Vec::new(),
            };
            let read = validate(dialects, &pod);
            assert_ne!(read, Ok(None), "{resource} is overlooked");
        }
    }
}
