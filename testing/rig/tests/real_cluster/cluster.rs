//! What a rig offers to its users: pods, Services, restarts, its network, its files.

use std::fs;
use std::net::TcpStream;

use gpushare_rig::{API_PORT, NODE_IP, NODE_NAME, Rig, versions};

use crate::support::{phase, pod, start, until, wait_running};

fn node_ready(rig: &Rig) -> String {
    let path = "--output=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    rig.kubectl(&["get", "node", NODE_NAME, path])
        .unwrap_or_default()
}

#[test]
fn pods_run_log_and_reach_each_other_and_the_api_through_services() {
    let rig = start();
    let serve = "echo hello > /tmp/index.html; echo serving; exec httpd -f -p 80 -h /tmp";
    rig.apply(&pod("server", serve)).unwrap();
    rig.apply(&pod("client", "exec sleep 1000000")).unwrap();
    rig.kubectl(&["expose", "pod", "server", "--port=80"])
        .unwrap();
    wait_running(&rig, "server");
    wait_running(&rig, "client");
    until("the pod's log", || {
        rig.kubectl(&["logs", "server"])
            .ok()
            .filter(|log| log == "serving\n")
    });

    let jsonpath = "--output=jsonpath={.spec.clusterIP}";
    let service = rig
        .kubectl(&["get", "service", "server", jsonpath])
        .unwrap();
    let url = format!("http://{service}/");
    for pod in ["client", "server"] {
        let fetch = [
            "exec", pod, "--", "timeout", "5", "wget", "-q", "-O", "-", &url,
        ];
        let page = until("the Service to answer a pod", || rig.kubectl(&fetch).ok());
        assert_eq!(page, "hello\n");
    }
    let from_node = rig
        .inside("busybox")
        .args(["wget", "-q", "-O", "-", &url])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&from_node.stdout), "hello\n");
    let knock = ["nc", "-w", "5", "10.96.0.1", "443", "-e", "true"];
    rig.kubectl(&[&["exec", "client", "--"], &knock[..]].concat())
        .unwrap();
}

#[test]
fn every_program_reports_the_version_we_ask_for() {
    let rig = start();
    let version = rig.kubectl(&["version"]).unwrap();
    let expected = format!("v{}", versions::KUBERNETES);
    assert_eq!(
        version.matches(&expected).count(),
        2,
        "client and server: {version}"
    );
    let path = "--output=jsonpath={.status.nodeInfo.kubeletVersion}";
    assert_eq!(
        rig.kubectl(&["get", "node", NODE_NAME, path]).unwrap(),
        expected
    );
}

#[test]
fn pods_go_on_while_the_kubelet_is_down_and_new_ones_run_when_it_is_back() {
    let rig = start();
    rig.apply(&pod("before", "exec sleep 1000000")).unwrap();
    wait_running(&rig, "before");
    rig.stop_component("kubelet").unwrap();
    rig.apply(&pod("during", "exec sleep 1000000")).unwrap();
    let bound = "--output=jsonpath={.spec.nodeName}";
    until("the scheduler to go on", || {
        rig.kubectl(&["get", "pod", "during", bound])
            .ok()
            .filter(|node| node == NODE_NAME)
    });
    assert_eq!(phase(&rig, "during"), "Pending");

    rig.start_component("kubelet").unwrap();
    wait_running(&rig, "during");
    rig.restart("kubelet").unwrap();
    rig.apply(&pod("after", "exec sleep 1000000")).unwrap();
    wait_running(&rig, "after");
    until("the node to be ready", || node_ready(&rig) == "True");
    let path = "--output=jsonpath={.status.containerStatuses[0].restartCount}";
    assert_eq!(rig.kubectl(&["get", "pod", "before", path]).unwrap(), "0");
}

#[test]
fn every_component_comes_back_from_a_restart() {
    let rig = start();
    for component in gpushare_rig::COMPONENTS {
        rig.restart(component)
            .unwrap_or_else(|error| panic!("{component}: {error:#}"));
    }
    until("the API server to answer", || {
        rig.kubectl(&["get", "--raw=/readyz"]).ok()
    });
    until("the node to be ready", || node_ready(&rig) == "True");
    until("a pod to be accepted", || {
        rig.apply(&pod("after", "exec sleep 1000000")).ok()
    });
    wait_running(&rig, "after");
}

#[test]
fn async_code_runs_in_the_rigs_network_and_plain_code_does_not() {
    let rig = start();
    let connect = || async {
        let direct = tokio::net::TcpStream::connect((NODE_IP, API_PORT))
            .await
            .is_ok();
        let spawned = tokio::spawn(tokio::net::TcpStream::connect((NODE_IP, API_PORT)));
        let blocking = tokio::task::spawn_blocking(|| TcpStream::connect((NODE_IP, API_PORT)));
        (
            direct,
            spawned.await.unwrap().is_ok(),
            blocking.await.unwrap().is_ok(),
        )
    };
    assert_eq!(rig.run(connect), (true, true, true));
    assert!(fs::metadata("/proc/self/ns/net").is_ok());
    let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let theirs = fs::read_link(format!("/proc/{}/ns/net", rig.pid())).unwrap();
    assert_ne!(ours, theirs, "the calling thread stays where it was");
}

#[test]
fn a_bridge_leads_from_the_hosts_loopback_to_the_api_server() {
    let rig = start();
    let bridge = rig.bridge().unwrap();
    let server = format!("--server=https://{}", bridge.address());
    let nodes = std::process::Command::new(rig.kubectl_path())
        .args([&server, "get", "nodes", "--output=name"])
        .env("KUBECONFIG", rig.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&nodes.stdout),
        format!("node/{NODE_NAME}\n")
    );
    let address = bridge.address();
    drop(bridge);
    assert!(TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn the_kubelets_sockets_and_the_cdi_directory_are_the_rigs_own() {
    let rig = start();
    assert!(
        rig.path("/var/lib/kubelet/device-plugins/kubelet.sock")
            .exists()
    );
    assert!(
        rig.path("/var/lib/kubelet/pod-resources/kubelet.sock")
            .exists()
    );
    fs::write(rig.path("/var/run/cdi/rig-test.json"), "{}").unwrap();
    let inside = rig
        .inside("cat")
        .arg("/var/run/cdi/rig-test.json")
        .output()
        .unwrap();
    assert_eq!(inside.stdout, b"{}");
    assert!(
        !std::path::Path::new("/run/cdi/rig-test.json").exists(),
        "the host has it, too"
    );
}
