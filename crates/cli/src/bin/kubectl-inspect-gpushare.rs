//! `kubectl inspect gpushare`: kubectl finds this program on the PATH.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_gpushare::inspect()
}
