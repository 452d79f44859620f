//! The annotations with which a pod chooses among cards.

use crate::choice::{Choice, Pattern};
use crate::dialect::{Chooser, Chooses, Dialects};
use crate::ids::CardId;

use super::Violation;

/// Longer lists are a mistake or an attack, and matching them would slow down every decision.
const MOST_ENTRIES: usize = 64;

pub(super) fn choice(
    dialects: &Dialects,
    class: &str,
    annotations: &[(&str, &str)],
) -> Result<Choice, Vec<Violation>> {
    let mut choice = Choice::default();
    let mut violations = Vec::new();
    let choosers = dialects
        .choosers
        .iter()
        .filter(|chooser| *chooser.class == *class);
    for chooser in choosers {
        let mut written = annotations.iter();
        let Some((_, text)) = written.find(|(name, _)| **name == *chooser.annotation) else {
            continue;
        };
        if let Err((problem, fix)) = read(dialects, chooser, text, &mut choice) {
            violations.push(Violation {
                container: None,
                field: chooser.annotation.clone(),
                value: shortened(text),
                problem,
                fix,
            });
        }
    }
    if violations.is_empty() {
        Ok(choice)
    } else {
        Err(violations)
    }
}

fn read(
    dialects: &Dialects,
    chooser: &Chooser,
    text: &str,
    choice: &mut Choice,
) -> Result<(), (String, String)> {
    if chooser.chooses == Chooses::Policy {
        choice.policy = Some(policy(dialects, text)?);
        return Ok(());
    }
    let entries: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .collect();
    if entries.is_empty() {
        return Err((
            "is an empty list".to_owned(),
            "write a list such as A,B, or remove the annotation".to_owned(),
        ));
    }
    if entries.len() > MOST_ENTRIES {
        return Err((
            format!("names {} things", entries.len()),
            format!("name at most {MOST_ENTRIES}"),
        ));
    }
    let patterns = |pattern: fn(&str) -> Option<Pattern>| {
        let patterns = entries.iter().map(|entry| pattern(entry));
        let no_model = || {
            let problem = "holds an entry without a letter or digit".to_owned();
            (problem, "write models such as A100,T4".to_owned())
        };
        patterns.collect::<Option<Vec<_>>>().ok_or_else(no_model)
    };
    let ids = || entries.iter().map(CardId::new);
    match chooser.chooses {
        Chooses::Models => choice.models.extend(patterns(Pattern::words)?),
        Chooses::NotModels => choice.not_models.extend(patterns(Pattern::words)?),
        Chooses::ModelsLike => choice.models.extend(patterns(Pattern::part)?),
        Chooses::NotModelsLike => choice.not_models.extend(patterns(Pattern::part)?),
        Chooses::Ids => choice.ids.extend(ids()),
        Chooses::NotIds => choice.not_ids.extend(ids()),
        Chooses::Policy => {}
    }
    Ok(())
}

fn policy(dialects: &Dialects, text: &str) -> Result<std::sync::Arc<str>, (String, String)> {
    let known = dialects
        .policies
        .iter()
        .find(|name| ***name == *text.trim());
    known.cloned().ok_or_else(|| {
        let names: Vec<&str> = dialects.policies.iter().map(|name| &**name).collect();
        let fix = format!("write one of {}", names.join(", "));
        ("is not a policy".to_owned(), fix)
    })
}

/// Values appear in events and logs; a hostile one must not flood them.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
