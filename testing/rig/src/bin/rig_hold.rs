//! Holds a rig until it is told to end or is killed. Tests kill it to see what a dead owner leaves
//! behind. Prints `NAME PID` when the rig is ready, and ends when its standard input closes.

use std::io::Read;

use gpushare_rig::{Options, Rig};

fn main() -> anyhow::Result<()> {
    let rig = Rig::start(Options::default())?;
    println!("{} {}", rig.name(), rig.pid());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    rig.stop()
}
