//! Whether the kubelet of a node reports. While it does, only the kubelet decides when the containers of its pods have ended.
//! Pure.

use std::collections::BTreeMap;

use gpushare_kube::convert::Kubelet;
use gpushare_ledger::Seconds;

/// A kubelet may register a deleted Node again within this many seconds. Its containers keep running meanwhile.
pub(super) const MAY_RETURN: Seconds = 120;
/// Deleted Nodes are forgotten after this many seconds. By then their pods are charged to their end.
const REMEMBERED: Seconds = 3_600;

#[derive(Clone, Debug, Default)]
pub(super) struct Kubelets {
    /// When the nodes were first listed.
    listed: Option<Seconds>,
    nodes: BTreeMap<String, Last>,
}

/// What was last seen of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Kubelet(Kubelet),
    /// When the deletion of its object was seen.
    Deleted(Seconds),
}

/// What can be expected of a node's kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// It will report when containers have ended.
    Reports,
    /// It will not report any more. The time is until when it is known to have reported.
    Lost(Option<Seconds>),
}

impl Kubelets {
    pub(super) fn is(&self, node: &str, kubelet: Kubelet) -> bool {
        self.nodes.get(node) == Some(&Last::Kubelet(kubelet))
    }

    pub(super) fn see(&mut self, node: &str, kubelet: Kubelet) {
        let last = self.nodes.entry(node.to_owned());
        let last = last.or_insert(Last::Kubelet(kubelet));
        let unheard = kubelet == Kubelet::Silent { since: None };
        // A recreated Node has no condition `Ready` before its kubelet reports. Until then it still counts as deleted.
        if !(unheard && matches!(last, Last::Deleted(_))) {
            *last = Last::Kubelet(kubelet);
        }
    }

    pub(super) fn delete(&mut self, node: &str, now: Seconds) {
        let last = self.nodes.entry(node.to_owned());
        let last = last.or_insert(Last::Deleted(now));
        *last = match *last {
            // The node was lost before and has not been heard of since.
            Last::Kubelet(Kubelet::Silent { since: Some(since) }) => Last::Deleted(since),
            Last::Kubelet(_) => Last::Deleted(now),
            before @ Last::Deleted(_) => before,
        };
        self.nodes
            .retain(|_, last| !matches!(last, Last::Deleted(at) if now - *at > REMEMBERED));
    }

    /// Takes over a complete list of nodes.
    pub(super) fn replace(
        &mut self,
        all: impl IntoIterator<Item = (String, Kubelet)>,
        now: Seconds,
    ) {
        self.listed.get_or_insert(now);
        let all: BTreeMap<String, Kubelet> = all.into_iter().collect();
        let gone = self.nodes.keys().filter(|node| !all.contains_key(*node));
        for node in gone.cloned().collect::<Vec<_>>() {
            self.delete(&node, now);
        }
        for (node, kubelet) in all {
            self.see(&node, kubelet);
        }
    }

    pub(super) fn outlook(&self, node: &str, now: Seconds) -> Outlook {
        let (missing, reported_until) = match self.nodes.get(node) {
            Some(Last::Kubelet(Kubelet::Reports)) => return Outlook::Reports,
            // The node controller had already waited before it wrote that.
            Some(Last::Kubelet(Kubelet::Silent { since })) => return Outlook::Lost(*since),
            Some(Last::Deleted(at)) => (Some(*at), Some(*at)),
            None => (self.listed, None),
        };
        match missing {
            Some(since) if now - since >= MAY_RETURN => Outlook::Lost(reported_until),
            _ => Outlook::Reports,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(kubelet: Kubelet) -> Kubelets {
        let mut kubelets = Kubelets::default();
        kubelets.replace([("n".to_owned(), kubelet)], 1_000);
        kubelets
    }

    #[test]
    fn a_node_that_is_deleted_may_be_registered_again() {
        let mut kubelets = seen(Kubelet::Reports);
        kubelets.delete("n", 1_100);
        let just_before = 1_100 + MAY_RETURN - 1;
        assert_eq!(kubelets.outlook("n", just_before), Outlook::Reports);
        kubelets.see("n", Kubelet::Reports);
        assert_eq!(kubelets.outlook("n", 9_000), Outlook::Reports);
        kubelets.replace([], 9_100);
        assert_eq!(kubelets.outlook("n", 9_100), Outlook::Reports);
        let lost = Outlook::Lost(Some(9_100));
        assert_eq!(kubelets.outlook("n", 9_100 + MAY_RETURN), lost);
        // A late list shows the deletion once more.
        kubelets.delete("n", 9_150);
        assert_eq!(kubelets.outlook("n", 9_100 + MAY_RETURN), lost);
    }

    #[test]
    fn a_recreated_node_that_has_not_reported_yet_may_still_report() {
        let new = Kubelet::Silent { since: None };
        for shown in ["by the watch", "by a list"] {
            let mut kubelets = seen(Kubelet::Reports);
            kubelets.delete("n", 1_100);
            match shown {
                "by the watch" => kubelets.see("n", new),
                _ => kubelets.replace([("n".to_owned(), new)], 1_101),
            }
            assert_eq!(kubelets.outlook("n", 1_101), Outlook::Reports, "{shown}");
            let (later, lost) = (1_100 + MAY_RETURN, Outlook::Lost(Some(1_100)));
            assert_eq!(kubelets.outlook("n", later), lost, "{shown}");
            kubelets.see("n", Kubelet::Reports);
            assert_eq!(kubelets.outlook("n", later), Outlook::Reports, "{shown}");
        }
    }

    #[test]
    fn a_kubelet_that_is_silent_is_lost_since_the_node_controller_noticed() {
        let silent = |since| seen(Kubelet::Silent { since });
        let kubelets = silent(Some(900));
        assert_eq!(kubelets.outlook("n", 1_000), Outlook::Lost(Some(900)));
        assert_eq!(silent(None).outlook("n", 1_000), Outlook::Lost(None));
        let mut kubelets = silent(Some(900));
        kubelets.delete("n", 1_010);
        assert_eq!(kubelets.outlook("n", 1_020), Outlook::Lost(Some(900)));
    }

    #[test]
    fn a_node_that_nobody_has_seen_is_waited_for_from_the_first_list_on() {
        let unlisted = Kubelets::default();
        assert_eq!(unlisted.outlook("x", 1_000), Outlook::Reports);
        let kubelets = seen(Kubelet::Reports);
        assert_eq!(kubelets.outlook("x", 1_001), Outlook::Reports);
        let later = 1_000 + MAY_RETURN;
        assert_eq!(kubelets.outlook("x", later), Outlook::Lost(None));
    }

    #[test]
    fn nodes_that_are_long_gone_are_forgotten() {
        let mut kubelets = seen(Kubelet::Reports);
        for number in 0..100 {
            let name = format!("n{number}");
            kubelets.see(&name, Kubelet::Reports);
            kubelets.delete(&name, 2_000 + number * REMEMBERED);
        }
        assert_eq!(kubelets.nodes.len(), 3);
    }
}
