//! Compiles the protos with a compiler written in Rust, so that no `protoc` needs to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(
        ["proto/deviceplugin.proto", "proto/podresources.proto"],
        ["proto"],
    )?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
