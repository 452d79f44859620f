//! The files that a rig starts from: certificates, tokens, kubeconfigs and the components' settings.
//! They are written to the state directory and copied to `/run/rig` inside.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use uuid::Uuid;

use crate::binaries::Binaries;
use crate::images;
use crate::options::Options;
use crate::pki::Pki;

/// The name of the rig's only node.
pub const NODE_NAME: &str = "node";

/// The node's address, the same in every rig: each has its own network.
pub const NODE_IP: &str = "10.99.0.1";

/// Where the API server listens, inside the rig's network.
pub const API_PORT: u16 = 6443;

/// Addresses of Services; the first one is the API server's.
pub(crate) const SERVICE_CIDR: &str = "10.96.0.0/16";
const API_SERVICE_IP: &str = "10.96.0.1";

/// Addresses of pods: room for many rounds of `max_pods` while old addresses are being returned.
pub(crate) const POD_CIDR: &str = "10.244.0.0/20";

/// Where the rig keeps its own files, as seen from inside.
pub(crate) const HOME: &str = "/run/rig";

const KUBELET: &str = include_str!("../assets/kubelet.yaml");
const CONTAINERD: &str = include_str!("../assets/containerd.toml");
const SCHEDULER: &str = include_str!("../assets/kube-scheduler.yaml");
const KUBE_PROXY: &str = include_str!("../assets/kube-proxy.yaml");
const NETWORK: &str = include_str!("../assets/cni.conflist");

/// A user of the API: file name of the kubeconfig, user, group.
const USERS: [(&str, &str, &str); 5] = [
    ("admin", "admin", "system:masters"),
    ("kubelet", "system:node:node", "system:nodes"),
    (
        "kube-controller-manager",
        "system:kube-controller-manager",
        "",
    ),
    ("kube-scheduler", "system:kube-scheduler", ""),
    ("kube-proxy", "system:kube-proxy", ""),
];

/// Writes all files of a rig into the new directory `dir`, readable by its owner only.
pub(crate) fn write(dir: &Path, cgroup: &str, options: &Options) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    fs::set_permissions(dir, Permissions::from_mode(0o700))
        .with_context(|| format!("cannot protect {}", dir.display()))?;
    for (name, text) in files(cgroup, options)? {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn files(cgroup: &str, options: &Options) -> Result<Vec<(String, String)>> {
    let pki = Pki::generate(&[
        "localhost",
        "kubernetes.default.svc",
        "127.0.0.1",
        API_SERVICE_IP,
        NODE_IP,
    ])?;
    let cni_bin = format!("{HOME}/cluster/{}", Binaries::cni_dir());
    let scheduler = format!("{SCHEDULER}{}\n", options.scheduler_extra.trim_end());
    let kubelet = KUBELET
        .replace("@NODE_IP@", NODE_IP)
        .replace("@CGROUP@", cgroup)
        .replace("@MAX_PODS@", &options.max_pods.to_string());
    let mut files: Vec<(String, String)> = [
        ("kubelet.yaml", kubelet),
        (
            "containerd.toml",
            CONTAINERD
                .replace("@PAUSE@", images::PAUSE)
                .replace("@CNI_BIN@", &cni_bin),
        ),
        ("kube-scheduler.yaml", scheduler),
        (
            "kube-proxy.yaml",
            KUBE_PROXY
                .replace("@NODE_NAME@", NODE_NAME)
                .replace("@NODE_IP@", NODE_IP)
                .replace("@POD_CIDR@", POD_CIDR),
        ),
        (
            "cni/10-rig.conflist",
            NETWORK.replace("@POD_CIDR@", POD_CIDR),
        ),
        ("pki/server.crt", pki.server.certificate),
        ("pki/server.key", pki.server.key),
        ("pki/kubelet-client.crt", pki.kubelet_client.certificate),
        ("pki/kubelet-client.key", pki.kubelet_client.key),
        ("pki/service-account.key", pki.service_account_key),
        ("pki/service-account.pub", pki.service_account_public_key),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into();

    let mut tokens = String::new();
    for (file, user, group) in USERS {
        let token = Uuid::new_v4().simple().to_string();
        let _ = writeln!(tokens, "{token},{user},{user},\"{group}\"");
        let server = format!("https://{NODE_IP}:{API_PORT}");
        files.push((
            format!("{file}.kubeconfig"),
            kubeconfig(&server, &pki.authority, &token),
        ));
    }
    files.push(("pki/tokens.csv".into(), tokens));
    files.push(("pki/ca.crt".into(), pki.authority));
    Ok(files)
}

/// A kubeconfig is JSON here, which every reader of YAML accepts.
fn kubeconfig(server: &str, authority: &str, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "rig",
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "clusters": [{"name": "rig", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64.encode(authority),
        }}],
        "users": [{"name": "rig", "user": {"token": token}}],
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left_and_the_schedulers_extra_settings_are_at_its_end() {
        let options = Options {
            scheduler_extra: "extenders:\n- urlPrefix: http://127.0.0.1:1\n".into(),
            max_pods: 42,
            ..Options::default()
        };
        let files = files("the-cgroup", &options).unwrap();
        for (name, text) in &files {
            assert!(
                !text.contains('@'),
                "{name} has a placeholder left:\n{text}"
            );
        }
        let text = |wanted: &str| &files.iter().find(|(name, _)| name == wanted).unwrap().1;
        assert!(
            text("kube-scheduler.yaml")
                .ends_with("\nextenders:\n- urlPrefix: http://127.0.0.1:1\n")
        );
        assert!(text("kubelet.yaml").contains("maxPods: 42\n"));
        assert!(text("kubelet.yaml").contains("cgroupRoot: /the-cgroup\n"));
        assert!(text("admin.kubeconfig").contains("https://10.99.0.1:6443"));
        assert_eq!(text("pki/tokens.csv").lines().count(), USERS.len());
    }
}
