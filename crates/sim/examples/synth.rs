//! Writes the synthetic trace of the tests: `synth NODES PODS SEED FOLDER`.

use std::path::Path;
use std::process::ExitCode;

use gpushare_sim::synth;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, pods, seed, folder] = arguments.as_slice() else {
        eprintln!("usage: synth NODES PODS SEED FOLDER");
        return ExitCode::FAILURE;
    };
    let (Ok(nodes), Ok(pods), Ok(seed)) = (nodes.parse(), pods.parse(), seed.parse()) else {
        eprintln!("NODES, PODS and SEED are whole numbers");
        return ExitCode::FAILURE;
    };
    let trace = synth::trace(nodes, pods, seed);
    for (name, text) in [
        ("nodes.csv", synth::nodes_csv(&trace)),
        ("pods.csv", synth::pods_csv(&trace)),
        ("arrivals.tsv", synth::arrivals_tsv(&trace.arrivals)),
    ] {
        let file = Path::new(folder).join(name);
        if let Err(error) = std::fs::write(&file, text) {
            eprintln!("cannot write {}: {error}", file.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
