//! The plugins on the measured cluster, from the command to its last line of output, beside a process that only lists
//! and decodes the same objects.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use super::start::bare_list;
use crate::lab::Lab;
use crate::measure::median;
use crate::objects::TOO_MUCH_GIB;
use crate::process::{kubeconfig, program};
use crate::report::Row;

const TURNS: usize = 3;

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let api = Lab::api(0)?;
    let directory = tempfile::tempdir()?;
    let config = kubeconfig(&directory, &api.url())?;
    let too_large = too_large(&directory)?;
    let calls: [(&str, &str, &[&str]); 4] = [
        ("cards", "kubectl-gpushare", &["cards"]),
        ("why", "kubectl-gpushare", &["why", "-f", &too_large]),
        // As many pods as it counts by default.
        ("fit", "kubectl-gpushare", &["fit", "--mem", "100"]),
        ("inspect", "kubectl-inspect-gpushare", &[]),
    ];
    let mut rows = Vec::new();
    for (name, called, arguments) in calls {
        let (mut taken, mut lists) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let mut command = Command::new(program(called)?);
            command.args(arguments).arg("--kubeconfig").arg(&config);
            taken.push(time(&mut command)?);
            lists.push(bare_list(&api.url())?);
        }
        let name = format!("plugins: {name}");
        rows.push(Row::time(name, median(taken)?, median(lists)?));
    }
    Ok(rows)
}

fn time(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    let output = command.stderr(Stdio::inherit()).output()?;
    let took = began.elapsed();
    ensure!(
        output.status.success() && !output.stdout.is_empty(),
        "{command:?} ends with {}",
        output.status
    );
    Ok(took)
}

/// A file with a pod for which no node has a card.
fn too_large(directory: &TempDir) -> Result<String> {
    let limits = json!({"aliyun.com/gpu-mem": TOO_MUCH_GIB.to_string()});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "too-large"},
        "spec": {"containers": [{"name": "c", "image": "none", "resources": {"limits": limits}}]},
    });
    let path = directory.path().join("pod.yaml");
    fs::write(&path, pod.to_string())?;
    Ok(path.display().to_string())
}
