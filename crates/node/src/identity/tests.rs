use gpushare_core::gpu::AliyunUnit;

use super::*;
use crate::testing::PodMaker;

const GIB: Division = Division::AliyunMemory(AliyunUnit::GiB);

fn holder(pod: &str, container: &str) -> Holder {
    Holder {
        pod: pod.into(),
        container: container.to_owned(),
        slot: SlotName::fresh(&[]),
    }
}

fn listed(pod: &str, container: &str) -> ListedContainer {
    ListedContainer {
        namespace: "default".to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
    }
}

#[test]
fn a_container_that_both_sources_show_is_found() {
    let found = identify(1, vec![holder("a", "app")], &[listed("a", "app")]).unwrap();
    assert_eq!(found.pod, "a".into());
    assert_eq!(found.name, Some(("default".to_owned(), "a".to_owned())));
    found
        .check(&PodMaker::new("a").app(1).facts(), GIB)
        .unwrap();
}

#[test]
fn an_init_container_and_the_app_that_got_its_ids_are_both_meant() {
    let holders = vec![holder("a", "init"), holder("a", "app")];
    let found = identify(1, holders, &[listed("a", "app")]).unwrap();
    let names: Vec<&str> = found.containers.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["init", "app"]);
    let pod = PodMaker::new("a").init(1).app(1).facts();
    found.check(&pod, GIB).unwrap();
}

#[test]
fn an_init_container_alone_is_known_from_the_checkpoint_only() {
    let found = identify(1, vec![holder("a", "init")], &[]).unwrap();
    found
        .check(&PodMaker::new("a").init(1).facts(), GIB)
        .unwrap();
}

#[test]
fn ids_that_nobody_holds_are_refused() {
    assert_eq!(identify(1, vec![], &[]), Err(Doubt::Nobody));
    assert_eq!(
        identify(1, vec![], &[listed("a", "app")]),
        Err(Doubt::Nobody)
    );
}

#[test]
fn ids_of_two_pods_are_refused() {
    let two = vec![holder("a", "app"), holder("b", "app")];
    assert_eq!(
        identify(1, two, &[]),
        Err(Doubt::TwoPods("a".into(), "b".into()))
    );
    let both = [listed("a", "app"), listed("b", "app")];
    let doubt = identify(1, vec![holder("a", "app")], &both).unwrap_err();
    assert!(matches!(doubt, Doubt::TwoListed(..)), "{doubt}");
}

#[test]
fn a_container_that_only_pod_resources_shows_is_refused() {
    let doubt = identify(1, vec![holder("a", "app")], &[listed("a", "other")]).unwrap_err();
    assert!(matches!(doubt, Doubt::OnlyListed { .. }), "{doubt}");
}

#[test]
fn an_app_container_that_pod_resources_does_not_show_is_refused() {
    let found = identify(1, vec![holder("a", "app")], &[]).unwrap();
    let doubt = found
        .check(&PodMaker::new("a").app(1).facts(), GIB)
        .unwrap_err();
    assert_eq!(doubt, Doubt::NotListed("app".to_owned()));
}

#[test]
fn sources_that_name_different_pods_are_refused() {
    let found = identify(1, vec![holder("a", "app")], &[listed("b", "app")]).unwrap();
    let doubt = found
        .check(&PodMaker::new("a").app(1).facts(), GIB)
        .unwrap_err();
    assert!(matches!(doubt, Doubt::Disagree { .. }), "{doubt}");
}

#[test]
fn a_container_that_holds_another_number_of_devices_than_it_asks_for_is_refused() {
    let found = identify(2, vec![holder("a", "app")], &[listed("a", "app")]).unwrap();
    let pod = PodMaker::new("a").app(3).facts();
    let doubt = found.check(&pod, GIB).unwrap_err();
    let message = doubt.to_string();
    assert!(
        message
            .contains("holds 2 of aliyun.com/gpu-mem by the kubelet's checkpoint, but asks for 3"),
        "{message}"
    );
}

#[test]
fn devices_of_a_resource_that_the_container_does_not_ask_for_are_refused() {
    let found = identify(3, vec![holder("a", "app")], &[listed("a", "app")]).unwrap();
    let pod = PodMaker::new("a").app(3).facts();
    found.check(&pod, GIB).unwrap();
    let doubt = found.check(&pod, Division::TencentCore).unwrap_err();
    assert!(
        matches!(doubt, Doubt::OtherNumber { asked: 0, .. }),
        "{doubt}"
    );
}
