//! What a pod asks for, after validation.

use crate::amounts::Amounts;

/// When a container of a pod runs, which decides whether its share adds up with the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs alone, before the containers.
    Init,
    /// An init container with `restartPolicy: Always`: runs from its turn to the pod's end.
    Sidecar,
    App,
}

/// One container's valid request: this much on one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAsk {
    pub container: String,
    pub role: Role,
    pub dialect: &'static str,
    pub amounts: Amounts,
}

/// A pod's valid request: at least one container, in the pod's own order (init containers first).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAsk {
    pub class: std::sync::Arc<str>,
    pub containers: Vec<ContainerAsk>,
}

impl PodAsk {
    /// The most that the pod holds at one moment, were all its containers on one card.
    pub fn peak(&self) -> Amounts {
        peak(self.containers.iter().map(|ask| (ask.role, ask.amounts)))
    }

    pub fn container(&self, name: &str) -> Option<&ContainerAsk> {
        self.containers.iter().find(|ask| ask.container == name)
    }
}

/// The most that containers hold at one moment: init containers run one after the other beside the
/// sidecars that started before them; then apps and sidecars run together. Stuck at the largest number
/// on overflow, which no card can hold.
pub fn peak(containers: impl Iterator<Item = (Role, Amounts)>) -> Amounts {
    let mut lasting = Amounts::ZERO;
    let mut highest = Amounts::ZERO;
    for (role, amounts) in containers {
        let now = lasting.saturating_add(&amounts);
        highest = highest.max_each(&now);
        if role != Role::Init {
            lasting = now;
        }
    }
    highest.max_each(&lasting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(containers: &[(Role, u64)], expected: u64) {
        let amounts = containers
            .iter()
            .map(|(role, amount)| (*role, Amounts::of(0, *amount)));
        assert_eq!(peak(amounts), Amounts::of(0, expected), "{containers:?}");
    }

    #[test]
    fn apps_add_up() {
        check(&[(Role::App, 3), (Role::App, 4)], 7);
    }

    #[test]
    fn init_containers_run_one_after_the_other() {
        check(&[(Role::Init, 5), (Role::Init, 6), (Role::App, 2)], 6);
        check(&[(Role::Init, 5), (Role::App, 4), (Role::App, 4)], 8);
    }

    #[test]
    fn a_sidecar_counts_with_later_init_containers_and_with_the_apps() {
        check(&[(Role::Sidecar, 2), (Role::Init, 5), (Role::App, 1)], 7);
        check(&[(Role::Init, 5), (Role::Sidecar, 2), (Role::App, 1)], 5);
        check(&[(Role::Sidecar, 2), (Role::App, 4)], 6);
    }

    #[test]
    fn an_overflow_stays_too_large() {
        check(&[(Role::App, u64::MAX), (Role::App, 4)], u64::MAX);
    }
}
