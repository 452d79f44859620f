use super::*;
use crate::store::{Batch, Change, Ledger};

/// Cards that fill several pages.
fn much(node: &str) -> Change {
    Change::Remember {
        node: node.to_owned(),
        cards: Some("x".repeat(100_000)),
    }
}

#[tokio::test]
async fn a_full_disk_refuses_what_has_no_room_and_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    let mut writer = connect(&file, MissingAction::Make).unwrap();
    migrate(&mut writer, MissingAction::Make).unwrap();
    let pages: i64 = writer
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    writer
        .pragma_update(None, "max_page_count", pages + 2)
        .unwrap();
    let (queue, requests) = mpsc::channel(QUEUE);
    let serving = thread::spawn(move || serve(writer, requests));
    let full = Ledger::new(Sqlite {
        path: file.clone(),
        file: File::at(&file).unwrap(),
        queue,
        reader: Arc::new(Mutex::new(connect_to_read(&file).unwrap())),
    });
    let epoch = full.take_over("test").await.unwrap();
    let batch = |changes| Batch::new(epoch, 0, changes);
    let refused = full.record(batch(vec![much("a")])).await.unwrap_err();
    let said = gpushare_daemon::causes::with_causes(&refused);
    assert!(said.contains("full"), "{said}");
    assert!(!refused.is_damage() && !refused.needs_opening(), "{said}");
    // What is there can still be read, and little things written.
    full.check().await.unwrap();
    full.record(batch(Vec::new())).await.unwrap();
    drop(full);
    serving.join().unwrap();

    // With room again, the same is written.
    let roomy = Ledger::new(Sqlite::open(&file).unwrap());
    let epoch = roomy.take_over("test").await.unwrap();
    let again = Batch::new(epoch, 0, vec![much("a")]);
    roomy.record(again).await.unwrap();
    assert_eq!(roomy.inventories().await.unwrap().len(), 1);
    roomy.check().await.unwrap();
}
