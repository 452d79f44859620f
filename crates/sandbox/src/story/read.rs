//! Parses the text of a story into its steps. Errors give the number of the step and say what would be right, because
//! people write these files by hand.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{Expectation, Step, Story, Target, View, What};
use crate::install;

const PATIENCE: Duration = Duration::from_mins(2);
/// The longest duration: nobody watches for longer, and adding it to a time cannot overflow.
const LONGEST: Duration = Duration::from_hours(24);

const STEPS: &str = "say, apply, delete, wait, show or pause";
const WAITS: &str = "running, refused, succeeded, gone, available, funded or exhausted";

pub(super) fn story(text: &str) -> Result<Story, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let map = value
        .as_object()
        .ok_or("a story is a map with a title and steps")?;
    only(map, &["title", "steps"])?;
    let title = map.get("title").ok_or("it has no title")?;
    let steps = map.get("steps").ok_or("it has no steps")?;
    let steps = steps
        .as_array()
        .ok_or("steps are a list, each item with one key")?;
    Ok(Story {
        title: words(title).map_err(|why| format!("title: {why}"))?,
        steps: (1..)
            .zip(steps)
            .map(|(number, step)| read(step).map_err(|why| format!("step {number}: {why}")))
            .collect::<Result<_, _>>()?,
    })
}

fn read(step: &Value) -> Result<Step, String> {
    let map = step
        .as_object()
        .ok_or_else(|| format!("a step is a map with one key: {STEPS}"))?;
    let mut entries = map.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        let keys: Vec<&str> = map.keys().map(String::as_str).collect();
        return Err(format!(
            "it has the keys [{}]; each step has exactly one of {STEPS}",
            keys.join(", ")
        ));
    };
    let step = match key.as_str() {
        "say" => words(value).map(Step::Say),
        "apply" => manifests(value).map(Step::Apply),
        "delete" => target(value).map(Step::Delete),
        "wait" => expectation(value).map(Step::Wait),
        "show" => view(value).map(Step::Show),
        "pause" => duration(value).map(Step::Pause),
        _ => return Err(format!("{key} is not known; a step is one of {STEPS}")),
    };
    step.map_err(|why| format!("{key}: {why}"))
}

fn words(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("{value} is no text; put it in quotes or after `|`"))
}

fn duration(value: &Value) -> Result<Duration, String> {
    let wrong = |why: &str| format!("{value} {why}; write a duration such as 5s or 2m");
    let text = value.as_str().ok_or_else(|| wrong("has no unit"))?;
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let parsed = parsed.map_err(|_| wrong("is not a duration"))?;
    let duration = Duration::try_from(parsed).map_err(|_| wrong("is negative"))?;
    if duration > LONGEST {
        return Err(wrong("is longer than a day"));
    }
    Ok(duration)
}

fn manifests(value: &Value) -> Result<Vec<Value>, String> {
    let text = value
        .as_str()
        .ok_or("manifests are a text; begin it with `apply: |`")?;
    let manifests = install::documents(text)?;
    if manifests.is_empty() {
        return Err("there is no manifest in it".to_owned());
    }
    for (number, manifest) in (1..).zip(&manifests) {
        for path in ["/apiVersion", "/kind", "/metadata/name"] {
            if manifest.pointer(path).and_then(Value::as_str).is_none() {
                let field = path.trim_start_matches('/').replace('/', ".");
                return Err(format!("manifest {number} has no {field}"));
            }
        }
    }
    Ok(manifests)
}

fn target(value: &Value) -> Result<Target, String> {
    let fields = ["apiVersion", "kind", "namespace", "name"];
    let map = value
        .as_object()
        .ok_or("it names an object: {apiVersion: v1, kind: Pod, namespace: default, name: a}")?;
    only(map, &fields)?;
    let field = |name: &str| -> Result<String, String> {
        let value = map.get(name).ok_or_else(|| format!("it has no {name}"))?;
        words(value).map_err(|why| format!("{name}: {why}"))
    };
    let namespace = map.get("namespace").filter(|value| !value.is_null());
    Ok(Target {
        api_version: field("apiVersion")?,
        kind: field("kind")?,
        namespace: namespace.map(|_| field("namespace")).transpose()?,
        name: field("name")?,
    })
}

fn expectation(value: &Value) -> Result<Expectation, String> {
    let map = value.as_object().ok_or_else(|| {
        format!("it names what must come true: {{running: default/a}}; known are {WAITS}")
    })?;
    let within = map.get("within").map(duration).transpose();
    let within = within.map_err(|why| format!("within: {why}"))?;
    let mut entries = map.iter().filter(|(key, _)| *key != "within");
    let (Some((key, name)), None) = (entries.next(), entries.next()) else {
        return Err(format!("it waits for exactly one of {WAITS}"));
    };
    let name = words(name).map_err(|why| format!("{key}: {why}"))?;
    let what = match key.as_str() {
        "running" => What::Running(name),
        "refused" => What::Refused(name),
        "succeeded" => What::Succeeded(name),
        "gone" => What::Gone(name),
        "available" => What::Available(name),
        "funded" => What::Funded(name),
        "exhausted" => What::Exhausted(name),
        _ => return Err(format!("{key} is not known; it waits for {WAITS}")),
    };
    Ok(Expectation {
        what,
        within: within.unwrap_or(PATIENCE),
    })
}

fn view(value: &Value) -> Result<View, String> {
    match value.as_str() {
        Some("cards") => Ok(View::Cards),
        _ => Err(format!("{value} is not known; there is cards")),
    }
}

fn only(map: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(odd) => Err(format!(
            "{odd} is not known; there are {}",
            known.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_story_can_be_read() {
        let story = Story::built_in().unwrap();
        assert!(story.steps.len() > 10);
    }

    #[test]
    fn waiting_has_a_limit_of_its_own_or_the_usual_one() {
        let text = "title: t\nsteps:\n- wait: {running: a/b}\n- wait: {gone: a/b, within: 5s}\n";
        let steps = story(text).unwrap().steps;
        let wait = |what, within| Step::Wait(Expectation { what, within });
        let five = Duration::from_secs(5);
        assert_eq!(
            steps,
            [
                wait(What::Running("a/b".to_owned()), PATIENCE),
                wait(What::Gone("a/b".to_owned()), five),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_file_its_step_and_what_would_be_right() {
        for (steps, expected) in [
            (
                "- dance: now",
                "step 1: dance is not known; a step is one of say, apply",
            ),
            (
                "- say: a\n- 5",
                "step 2: a step is a map with one key: say, apply",
            ),
            (
                "- {say: a, show: cards}",
                "step 1: it has the keys [say, show]; each step has exactly one",
            ),
            ("- {}", "step 1: it has the keys []"),
            ("- say: 5", "step 1: say: 5 is no text; put it in quotes"),
            (
                "- pause: 5",
                "step 1: pause: 5 has no unit; write a duration such as 5s",
            ),
            (
                "- pause: soon",
                "step 1: pause: \"soon\" is not a duration; write",
            ),
            ("- pause: -5s", "step 1: pause: \"-5s\" is negative; write"),
            (
                "- pause: 99999h",
                "step 1: pause: \"99999h\" is longer than a day; write",
            ),
            (
                "- show: everything",
                "step 1: show: \"everything\" is not known; there is cards",
            ),
            (
                "- wait: a",
                "step 1: wait: it names what must come true: {running: default/a}",
            ),
            (
                "- wait: {within: 5s}",
                "step 1: wait: it waits for exactly one of running",
            ),
            (
                "- wait: {running: a, gone: b}",
                "step 1: wait: it waits for exactly one of running",
            ),
            (
                "- wait: {dancing: a}",
                "step 1: wait: dancing is not known; it waits for running",
            ),
            (
                "- wait: {running: a, within: 5}",
                "step 1: wait: within: 5 has no unit; write",
            ),
            (
                "- delete: a",
                "step 1: delete: it names an object: {apiVersion: v1",
            ),
            (
                "- delete: {kind: Pod, name: a}",
                "step 1: delete: it has no apiVersion",
            ),
            (
                "- delete: {pod: a}",
                "step 1: delete: pod is not known; there are apiVersion",
            ),
            (
                "- apply: {kind: Pod}",
                "step 1: apply: manifests are a text; begin it with `apply: |`",
            ),
            ("- apply: ''", "step 1: apply: there is no manifest in it"),
            (
                "- apply: 'kind: Pod'",
                "step 1: apply: manifest 1 has no apiVersion",
            ),
            (
                "- apply: '{apiVersion: v1, kind: Pod}'",
                "step 1: apply: manifest 1 has no metadata.name",
            ),
        ] {
            let text = format!("title: t\nsteps:\n{steps}\n");
            let error = Story::parse("my.yaml", &text).unwrap_err().to_string();
            let start = format!("my.yaml: {expected}");
            assert!(error.starts_with(&start), "{steps}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_no_story_is_told_what_a_story_is() {
        for (text, expected) in [
            ("", "a story is a map with a title and steps"),
            ("- a", "a story is a map with a title and steps"),
            ("steps: []", "it has no title"),
            ("title: t", "it has no steps"),
            ("title: t\nsteps: 5", "steps are a list"),
            ("title: 5\nsteps: []", "title: 5 is no text"),
            (
                "title: t\nsteps: []\nmore: 1",
                "more is not known; there are title, steps",
            ),
        ] {
            let error = story(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        assert!(story("title: [").is_err());
    }
}
