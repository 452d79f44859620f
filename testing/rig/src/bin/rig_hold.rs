//! Holds a rig until it is told to end, or killed: the victim in the tests of what a dead owner
//! leaves behind. Prints `NAME PID` when the rig is ready and ends with its standard input.

use std::io::Read;

use gpushare_rig::{Options, Rig};

fn main() -> anyhow::Result<()> {
    let rig = Rig::start(Options::default())?;
    println!("{} {}", rig.name(), rig.pid());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    rig.stop()
}
