//! Stories for the sandbox: an accepted story can be played, and means the same as JSON; a refusal names the file.

use std::time::Duration;

use gpushare_sandbox::story::{Step, Story};
use serde_json::Value;

use super::on_text;
use crate::Verdict;

/// The player adds a story's durations to a clock, so they must be bounded.
const LONGEST: Duration = Duration::from_hours(24);

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let story = match Story::parse("story.yaml", text) {
            Ok(story) => story,
            Err(error) => {
                let error = error.to_string();
                let reason = error.strip_prefix("story.yaml: ").expect("the file's name");
                assert!(!reason.is_empty());
                return Verdict::Refused;
            }
        };
        for step in &story.steps {
            match step {
                Step::Pause(time) => assert!(*time <= LONGEST),
                Step::Wait(expectation) => assert!(expectation.within <= LONGEST),
                Step::Apply(objects) => {
                    assert!(!objects.is_empty(), "a step that does nothing");
                    let named = |object: &Value| object.pointer("/metadata/name").is_some();
                    assert!(objects.iter().all(named), "nothing to call it");
                }
                Step::Say(_) | Step::Delete(_) | Step::Show(_) => {}
            }
        }
        if let Ok(value) = serde_saphyr::from_str::<Value>(text) {
            let again = Story::parse("story.yaml", &value.to_string()).expect("the same story");
            assert_eq!(again, story);
        }
        Verdict::Accepted
    })
}
