//! Which versions the cluster is made of. Each version is written here and nowhere else.

/// Kubernetes: API server, scheduler, controller manager, kubelet, kube-proxy and kubectl.
pub const KUBERNETES: &str = "1.36.4";

/// etcd, the API server's store.
pub const ETCD: &str = "3.6.16";

/// containerd, the container runtime. The 2.x line finds CDI devices without further settings.
pub const CONTAINERD: &str = "2.1.9";

/// The bridge, host-local and loopback network plugins.
pub const CNI_PLUGINS: &str = "1.9.1";

/// Raised when the way something is built or packed changes although its version does not, so that
/// items cached by an older checkout are not used as current ones.
pub(crate) const RECIPE: u32 = 1;

/// The version of the `k8s.io/*` library modules that belong to a Kubernetes release: their major
/// version is 0 where that of Kubernetes is 1.
pub(crate) fn staging(kubernetes: &str) -> String {
    match kubernetes.split_once('.') {
        Some((_, rest)) => format!("0.{rest}"),
        None => format!("0.{kubernetes}"),
    }
}

/// The minor version of a Kubernetes release, as the programs report it.
pub(crate) fn minor(kubernetes: &str) -> &str {
    kubernetes.split('.').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_modules_carry_the_release_with_major_zero() {
        assert_eq!(staging("1.36.4"), "0.36.4");
        assert_eq!(minor("1.36.4"), "36");
    }
}
