use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::sync::mpsc;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::cdi::Owner;
use crate::cdi::spec::{ContainerEdits, OLDEST_VERSION};

fn slot(pod: &str, value: &str) -> Slot {
    Slot {
        name: SlotName::fresh(&[]),
        owner: Owner {
            pod: pod.into(),
            pod_name: format!("default/{pod}"),
            container: "c".to_owned(),
            record: format!("record of {pod}"),
        },
        version: OLDEST_VERSION.to_owned(),
        edits: ContainerEdits {
            env: vec![format!("A={value}")],
            ..ContainerEdits::default()
        },
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn only_the_files_of_the_pod_that_is_gone_are_removed() {
    let directory = TempDir::new().unwrap();
    let foreign = directory.path().join("nvidia.yaml");
    fs::write(&foreign, "kind: nvidia.com/gpu").unwrap();
    let (files, _) = SlotFiles::open(directory.path()).unwrap();
    for pod in ["a", "a", "b"] {
        files.write(&slot(pod, "1")).unwrap();
    }
    assert_eq!(names(directory.path()).len(), 4);
    assert_eq!(files.remove_pod(&"a".into()).unwrap(), 2);
    assert_eq!(files.remove_pod(&"a".into()).unwrap(), 0);
    assert_eq!(names(directory.path()).len(), 2);
    assert!(foreign.exists());
}

#[test]
fn the_next_life_takes_over_files_with_their_records_and_drops_unfinished_ones() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let (files, _) = SlotFiles::open(path).unwrap();
    files.write(&slot("a", "1")).unwrap();
    fs::write(path.join("gpushare.io-slot-x.unfinished"), "{").unwrap();
    fs::write(path.join("gpushare.io-slot-y.json"), "not a spec").unwrap();

    let (files, records) = SlotFiles::open(path).unwrap();
    let earlier = EarlierAdmission {
        name: "default/a".to_owned(),
        record: "record of a".to_owned(),
    };
    assert_eq!(records, BTreeMap::from([("a".into(), earlier)]));
    assert_eq!(files.pods(), BTreeMap::from([("a".into(), None)]));
    assert!(!path.join("gpushare.io-slot-x.unfinished").exists());
    assert!(
        path.join("gpushare.io-slot-y.json").exists(),
        "not ours to remove"
    );
    assert_eq!(files.remove_pod(&"a".into()).unwrap(), 1);
}

#[test]
fn a_file_is_replaced_when_its_content_changes_and_left_alone_otherwise() {
    let directory = TempDir::new().unwrap();
    let (files, _) = SlotFiles::open(directory.path()).unwrap();
    let mut slot = slot("a", "1");
    files.write(&slot).unwrap();
    let path = files.path(&slot.name);
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = modified();
    files.write(&slot).unwrap();
    assert_eq!(modified(), before);
    slot.edits.env = vec!["A=2".to_owned()];
    files.write(&slot).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("A=2"));
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = SlotFiles::open(&file.join("cdi")).unwrap_err();
    assert!(error.to_string().contains("file/cdi"), "{error}");
}

/// Much longer than any of these operations takes.
const HANGS: Duration = Duration::from_secs(20);

/// The result of the operation; panics if it hangs.
fn without_hanging<T: Send + 'static>(operation: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(operation()));
    told.recv_timeout(HANGS).expect("it hangs")
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

#[test]
fn what_is_no_file_neither_holds_up_the_start_nor_is_read() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().to_owned();
    let (files, _) = SlotFiles::open(&path).unwrap();
    files.write(&slot("a", "1")).unwrap();
    let elsewhere = TempDir::new().unwrap();
    let (other, _) = SlotFiles::open(elsewhere.path()).unwrap();
    let foreign = slot("b", "1");
    other.write(&foreign).unwrap();

    fifo(&path.join("gpushare.io-slot-fifo.json"));
    fifo(&path.join("gpushare.io-slot-fifo.unfinished"));
    fs::create_dir(path.join("gpushare.io-slot-directory.json")).unwrap();
    fs::create_dir(path.join("gpushare.io-slot-directory.unfinished")).unwrap();
    symlink(
        other.path(&foreign.name),
        path.join("gpushare.io-slot-link.json"),
    )
    .unwrap();
    symlink("/dev/zero", path.join("gpushare.io-slot-endless.json")).unwrap();
    let huge = fs::File::create(path.join("gpushare.io-slot-huge.json")).unwrap();
    huge.set_len(1 << 40).unwrap();

    let (files, records) = without_hanging(move || SlotFiles::open(&path)).unwrap();
    let pods: Vec<PodUid> = files.pods().into_keys().collect();
    assert_eq!(pods, ["a".into()]);
    let records: Vec<String> = records.into_values().map(|pod| pod.record).collect();
    assert_eq!(records, ["record of a"]);
}

#[test]
fn a_slot_is_written_over_whatever_is_in_its_place_and_through_nothing() {
    let directory = TempDir::new().unwrap();
    let (files, _) = SlotFiles::open(directory.path()).unwrap();
    let (slot, files) = (slot("a", "1"), std::sync::Arc::new(files));
    let path = files.path(&slot.name);
    let unfinished = directory
        .path()
        .join(format!("gpushare.io-slot-{}.unfinished", slot.name));
    let victim = directory.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let traps: [&dyn Fn(&Path); 2] = [&fifo, &|path| symlink(&victim, path).unwrap()];
    for trap in traps {
        for place in [&path, &unfinished] {
            let _ = fs::remove_file(&path);
            trap(place);
            let (writer, written) = (files.clone(), slot.clone());
            without_hanging(move || writer.write(&written)).unwrap();
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!(fs::read_to_string(&path).unwrap(), slot.encode());
        }
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "untouched");
}
