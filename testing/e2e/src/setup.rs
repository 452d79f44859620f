//! What a scenario's cluster consists of: its cards, the dialects it serves, its scheduler's settings.

use std::fmt::Write as _;

use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_fake_nvml::hardware::Hardware;

use crate::world::EXTENDER;

const MODEL: &str = "NVIDIA A10";

#[derive(Clone, Debug)]
pub struct Setup {
    pub hardware: Hardware,
    pub hami: bool,
    /// Whether the extender wakes pods.
    pub wake: bool,
}

impl Setup {
    /// Cards of one model with these sizes in MiB.
    pub fn cards(sizes: &[u64]) -> Self {
        let cards: Vec<(&str, u64)> = sizes.iter().map(|size| (MODEL, *size)).collect();
        Self::models(&cards)
    }

    /// Cards by model and MiB.
    pub fn models(cards: &[(&str, u64)]) -> Self {
        Self {
            hardware: Hardware::with_cards(cards),
            hami: false,
            wake: true,
        }
    }

    /// Serves HAMi's dialect too.
    #[must_use]
    pub fn hami(self) -> Self {
        Self { hami: true, ..self }
    }

    pub(crate) fn dialects(&self) -> Dialects {
        gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: self.hami,
        })
    }

    /// Configures kube-scheduler as the user's guide says, but with a short backoff to save time.
    pub(crate) fn scheduler(&self) -> String {
        let mut config = format!(
            "
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
extenders:
- urlPrefix: http://{EXTENDER}/gpushare-scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  preemptVerb: preempt
  weight: 200
  httpTimeout: 15s
  nodeCacheCapable: true
  managedResources:
"
        );
        for name in self.dialects().resources() {
            let _ = writeln!(config, "  - {{name: {name}, ignoredByScheduler: false}}");
        }
        config
    }
}
