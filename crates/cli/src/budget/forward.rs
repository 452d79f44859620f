//! Reaches the timekeeper through the API server: runs `kubectl port-forward` for as long as this program runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running port-forward; dropping this value ends it.
#[derive(Debug)]
pub(super) struct Forward {
    child: Child,
    pub(super) port: u16,
}

impl Drop for Forward {
    fn drop(&mut self) {
        // kubectl may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Forward {
    /// `flags` choose the cluster.
    pub(super) fn start(namespace: &str, service: &str, flags: &[String]) -> Result<Self> {
        let mut child = Command::new("kubectl")
            .args(flags)
            .args([
                "port-forward",
                "--address=127.0.0.1",
                "--namespace",
                namespace,
            ])
            .args([format!("service/{service}"), ":443".to_owned()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!(
                    "cannot run kubectl to reach the timekeeper; {}",
                    by_hand(namespace, service)
                )
            })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut forward = Self { child, port: 0 };
        let (send, lines) = mpsc::channel();
        // Keep reading, so that kubectl never blocks on a full pipe.
        std::thread::spawn(move || {
            let lines = stdout
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines());
            for line in lines.map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let Some(port) = lines.recv_timeout(PATIENCE).ok().as_deref().and_then(port) else {
            // Kill kubectl first, so that reading its standard error comes to an end.
            let _ = forward.child.kill();
            let mut said = String::new();
            let read = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
            drop(read);
            bail!(
                "kubectl cannot forward a port to the timekeeper: {}; {}",
                said.trim(),
                by_hand(namespace, service)
            )
        };
        forward.port = port;
        Ok(forward)
    }
}

/// The port in `Forwarding from 127.0.0.1:43210 -> 12352`.
fn port(line: &str) -> Option<u16> {
    let rest = line.strip_prefix("Forwarding from 127.0.0.1:")?;
    rest.split(' ').next()?.parse().ok()
}

/// What users who may not forward ports can do instead.
fn by_hand(namespace: &str, service: &str) -> String {
    format!(
        "give --timekeeper with an address that leads to it, or ask somebody who may forward ports in {namespace} to run:\n  \
         kubectl port-forward --namespace {namespace} service/{service} 8443:443\n  \
         kubectl gpushare budget … --timekeeper https://localhost:8443 --timekeeper-name {service}.{namespace}.svc"
    )
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn the_port_is_read_from_what_kubectl_says() {
        assert_eq!(
            port("Forwarding from 127.0.0.1:43210 -> 12352"),
            Some(43210)
        );
        assert_eq!(port("Forwarding from [::1]:43210 -> 12352"), None);
        assert_eq!(port("error: pods not found"), None);
    }
}
