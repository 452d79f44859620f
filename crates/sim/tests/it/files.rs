//! Files as users write them: what is refused, and how the message helps.

use std::path::PathBuf;

use clap::Parser;
use gpushare_sim::cli::{self, Args};
use gpushare_sim::table::Source;
use gpushare_sim::trace::{read_arrivals, read_nodes, read_pods};

fn source(text: &str) -> Source {
    Source {
        file: PathBuf::from("file"),
        text: text.to_owned(),
    }
}

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

#[test]
fn bad_nodes_are_refused_with_place_and_expectation() {
    for (text, message) in [
        (
            "",
            "file:1: empty: expected a header sn,cpu_milli,memory_mib,gpu,model",
        ),
        (
            "sn,cpu_milli\n",
            "file:1: no column memory_mib: expected sn,cpu_milli,memory_mib,gpu,model",
        ),
        ("{h}a,1,1,1\n", "file:2: 4 fields where the header has 5"),
        (
            "{h}a,1,1,1,A,x\n",
            "file:2: 6 fields where the header has 5",
        ),
        (
            "{h}a,one,1,1,A\n",
            "file:2: column cpu_milli: expected a whole number from 0 to 1099511627776, found \"one\"",
        ),
        (
            "{h}a,1,-1,1,A\n",
            "file:2: column memory_mib: expected a whole number from 0 to 1099511627776, found \"-1\"",
        ),
        (
            "{h}\na,1,1,65,A\n",
            "file:3: column gpu: expected a whole number from 0 to 64, found \"65\"",
        ),
        (
            "{h}a,1,1,1.5,A\n",
            "file:2: column gpu: expected a whole number from 0 to 64, found \"1.5\"",
        ),
        (
            "{h}\"a,1,1,1,A\n",
            "file:2: a quoted field does not end on this line",
        ),
    ] {
        let error = read_nodes(&source(&text.replace("{h}", NODES))).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn bad_pods_are_refused_with_place_and_expectation() {
    for (line, message) in [
        (
            "p,1,1,1,0,",
            "file:2: column gpu_milli: expected a whole number from 1 to 1000, found \"0\"",
        ),
        (
            "p,1,1,1,1001,",
            "file:2: column gpu_milli: expected a whole number from 1 to 1000, found \"1001\"",
        ),
        (
            "p,1,1,2,500,",
            "file:2: column gpu_milli: several cards are always whole: expected 1000, found \"500\"",
        ),
        (
            "p,1,1,,500,",
            "file:2: column num_gpu: expected a whole number from 0 to 64, found \"\"",
        ),
        (
            "p,99999999999999999999,1,0,0,",
            "file:2: column cpu_milli: expected a whole number from 0 to 1099511627776, found \"99999999999999999999\"",
        ),
    ] {
        let error = read_pods(&source(&format!("{PODS}{line}\n"))).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn bad_arrivals_are_refused_with_place_and_expectation() {
    for (text, message) in [
        (
            "1\t0,1\n",
            "file:1: 2 fields separated by tabs: expected seed, pod rows and node rows",
        ),
        (
            "x\t0\t0,1\n",
            "file:1: column seed: expected a whole number, found \"x\"",
        ),
        (
            "1\t0,3\t0,1\n",
            "file:1: column pods: expected a row below 3, found \"3\"",
        ),
        (
            "1\t0,b\t0,1\n",
            "file:1: column pods: expected a row below 3, found \"b\"",
        ),
        (
            "1\t0\t0,2\n",
            "file:1: column nodes: expected a row below 2, found \"2\"",
        ),
        (
            "1\t0\t0\n",
            "file:1: 1 node rows, 1 distinct: expected each of 2 once",
        ),
        (
            "1\t0\t0,0\n",
            "file:1: 2 node rows, 1 distinct: expected each of 2 once",
        ),
        (
            "1\t0\t1,1,0\n",
            "file:1: 3 node rows, 2 distinct: expected each of 2 once",
        ),
        (
            "5\t0\t0,1\n6\t0\t0,1\n",
            "file:2: no line for seed 1: add one, or give --seed one of 5, 6",
        ),
        (
            "\n",
            "file:1: empty: expected a line 1 TAB pod rows TAB node rows",
        ),
    ] {
        let error = read_arrivals(&source(text), 1, 3, 2).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn columns_come_in_any_order_with_quotes_blank_lines_and_carriage_returns() {
    let text = "qos,gpu_milli,num_gpu,memory_mib,cpu_milli,name,gpu_spec\r\n\r\n\
                LS,250,1,10,20,\"a, \"\"b\"\"\",T4|P100\r\n";
    let pods = read_pods(&source(text)).unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].name, "a, \"b\"");
    assert_eq!((pods[0].cards, pods[0].milli), (1, 250));
    assert_eq!(pods[0].models, ["T4", "P100"]);
}

#[test]
fn without_the_column_of_models_every_model_will_do() {
    let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n";
    assert!(read_pods(&source(text)).unwrap()[0].models.is_empty());
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

/// Runs `simulate` with these files and options.
fn simulate(nodes: &str, pods: &str, options: &[&str]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let (nodes_file, pods_file) = (folder.path().join("n.csv"), folder.path().join("p.csv"));
    std::fs::write(&nodes_file, format!("{NODES}{nodes}")).unwrap();
    std::fs::write(&pods_file, format!("{PODS}{pods}")).unwrap();
    let mut line = vec![
        "simulate".into(),
        "--nodes".into(),
        nodes_file.into_os_string(),
    ];
    line.extend(["--pods".into(), pods_file.into_os_string()]);
    line.extend(options.iter().map(Into::into));
    let command = Command::try_parse_from(line).map_err(|error| error.to_string())?;
    cli::run(&command.args).map_err(|error| error.to_string())
}

#[test]
fn two_half_cards_fill_one_card_and_the_report_says_so() {
    let report = simulate(
        "a,8000,800,1,A\n",
        "p,1000,100,1,500,\nq,1000,100,1,500,\n",
        &[],
    )
    .unwrap();
    assert!(report.contains("at100      100.00 %"), "{report}");
    assert!(
        report.contains("learned on 1 nodes, 1 cards, seed 42"),
        "{report}"
    );
    assert!(
        report.contains("every decision passed the audit"),
        "{report}"
    );
}

#[test]
fn json_has_the_numbers_and_their_names() {
    let json = simulate("a,8000,800,1,A\n", "p,1000,100,1,500,\n", &["-o", "json"]).unwrap();
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["policy"], "learned");
    assert_eq!(report["at100"], 100.0);
    assert_eq!(report["dropped"], 1);
    assert_eq!(report["fragments"]["free"], 0.0);
    assert!(report["decisions_per_second"].as_f64().unwrap() > 0.0);
    assert!(report.get("steady").is_none());
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let pod = "p,1000,100,1,500,\n";
    for (nodes, pods, options, message) in [
        (
            "",
            pod,
            &[][..],
            "n.csv: no node has a card: add a row with at least 1 in the column gpu",
        ),
        ("a,1,1,0,A\n", pod, &[], "n.csv: no node has a card"),
        (
            "a,1,1,1,A\n",
            "",
            &[],
            "p.csv: no pods: add a row for each pod",
        ),
        (
            "a,1,1,1,A\n",
            "p,1000,100,0,0,\n",
            &["--churn", "0.9"],
            "p.csv: no pod asks for a card",
        ),
        (
            "a,1,1,1,A\n",
            pod,
            &["--arrivals", "/nonexistent"],
            "cannot read /nonexistent",
        ),
        (
            "a,1,1,1,A\n",
            pod,
            &["--policy", "tetris"],
            "unknown policy \"tetris\": use one of learned, fgd, binpack",
        ),
        (
            "a,1,1,1,A\n",
            pod,
            &["--churn", "many"],
            "\"many\" is not a load: use a number from 0.01 to 10",
        ),
        ("a,1,1,1,A\n", pod, &["--churn", "0"], "\"0\" is not a load"),
        ("a,1,1,1,A\n", pod, &["--then-pods", "x"], "--churn"),
    ] {
        let error = simulate(nodes, pods, options).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
