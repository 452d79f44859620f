//! If this program is on the PATH, kubectl runs it to complete `kubectl gpushare …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_gpushare::complete()
}
