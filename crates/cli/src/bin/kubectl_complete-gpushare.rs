//! kubectl asks this program, if it is on the PATH, what can follow after `kubectl gpushare …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_gpushare::complete()
}
