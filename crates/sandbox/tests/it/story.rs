//! The built-in story plays to its end, and leaves the cluster as it says.

use gpushare_sandbox::story::Story;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::support::{node_of, play, pods, start};

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_story_plays_to_its_end() {
    let sandbox = start().await;
    let told = play(&sandbox, &Story::built_in().unwrap()).await;

    let refusal = told.lines().find(|line| line.contains("nlp/train-c waits"));
    let refusal = refusal.unwrap_or_else(|| panic!("{told}"));
    assert!(
        refusal.contains("40960") || refusal.contains("40,960"),
        "{refusal}"
    );
    assert!(told.ends_with("== end of the story ==\n"), "{told}");

    let over = told
        .lines()
        .find(|line| line.contains("batch/sweep-2 is Running"));
    assert!(
        over.is_some_and(|line| line.contains("gpushare-over-budget")),
        "{told}"
    );

    let vision = pods(&sandbox, "vision");
    let evaluation = vision.get("evaluate").await.unwrap();
    assert_eq!(node_of(&evaluation), Some("mixed-1"));
    let batch = pods(&sandbox, "batch")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(batch.items.is_empty(), "over budget and evicted: {batch:?}");
    let nlp = pods(&sandbox, "nlp")
        .list(&ListParams::default())
        .await
        .unwrap();
    let names: Vec<String> = nlp.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["notebook", "train-a", "train-b", "train-c"]);
    sandbox.stop().await.unwrap();
}
