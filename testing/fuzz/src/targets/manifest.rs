//! Manifests that the kubectl plugin reads: YAML and JSON mean the same pod.

use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::manifest::{Manifest, ManifestError};
use gpushare_kube::slim;
use serde_json::Value;

use super::on_text;
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let dialects = gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        });
        let read = match pod(text) {
            Ok(read) => read,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return Verdict::Refused;
            }
        };
        let facts = PodFacts::new(&read, &dialects);
        // Must not panic.
        let _bound = facts.bound(&dialects.classes);
        // YAML that was read can be written as JSON, which is YAML again.
        if let Ok(value) = serde_saphyr::from_str::<Value>(text) {
            let again = pod(&value.to_string()).expect("the same pod");
            assert_eq!(PodFacts::new(&again, &dialects).ask, facts.ask);
        }
        Verdict::Accepted
    })
}

fn pod(text: &str) -> Result<slim::Pod, ManifestError> {
    Manifest::read(text)?.slim_pod()
}
