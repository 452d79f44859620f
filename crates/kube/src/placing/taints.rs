//! Taints, and which of them a pod tolerates.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::CORDON;

/// The taints that keep the pod off the node. Those with another effect are only preferences.
pub(super) fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let untolerated = |taint: &&Taint| !is_tolerated(tolerations, taint);
    taints.iter().filter(hard).filter(untolerated)
}

pub(super) fn is_cordon_tolerated(tolerations: &[Toleration]) -> bool {
    let cordon = Taint {
        key: CORDON.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    is_tolerated(tolerations, &cordon)
}

fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|one| tolerates(one, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let any_or =
        |own: Option<&str>, other: &str| own.is_none_or(|own| own.is_empty() || own == other);
    let values = [&toleration.value, &taint.value];
    let [tolerated, value] = values.map(|value| value.as_deref().unwrap_or_default());
    any_or(toleration.effect.as_deref(), &taint.effect)
        && any_or(toleration.key.as_deref(), &taint.key)
        && match toleration.operator.as_deref() {
            Some("Exists") => true,
            None | Some("" | "Equal") => tolerated == value,
            // `Gt` and `Lt` are behind a feature gate that is off by default (TaintTolerationComparisonOperators).
            Some(_) => false,
        }
}
