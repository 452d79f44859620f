//! What would help, in words: for each group, the changes that would let its best nodes take the pod.

use crate::choice::{Choice, Pattern};
use crate::dialect::{Chooser, Chooses, Dialects};
use crate::ids::NodeName;
use crate::request::PodAsk;
use crate::why::{Obstacles, Shortage, TooLittle, Why};

use super::Group;

/// How many node names a sentence lists.
const MOST_IN_TEXT: usize = 3;

pub(super) fn help(group: &Group, ask: &PodAsk, dialects: &Dialects) -> Vec<String> {
    let nodes = names(group);
    match &group.why {
        Why::NoCards { .. } => vec![
            format!("run the gpushare node agent on {nodes}, if there are cards"),
            "keep the pod off nodes without cards by a node selector".to_owned(),
        ],
        Why::TooSmall { short, .. } => too_small(short),
        Why::Blocked {
            class, by, short, ..
        } => {
            let Obstacles {
                room,
                health,
                choice,
            } = *by;
            let mut help = Vec::new();
            if choice {
                help.push(loosen(class, ask, dialects));
            }
            if health {
                help.push(format!("repair or replace the unhealthy cards of {nodes}"));
            }
            if room {
                help.extend(free(short, &nodes));
            }
            help
        }
        Why::TooComplex { .. } => vec![
            "use fewer containers, or shares of equal size".to_owned(),
            "ask for whole cards".to_owned(),
        ],
        Why::NotReached { .. } => vec![
            "wait for the next attempt, which continues with these nodes".to_owned(),
            "use fewer containers, or ask for whole cards".to_owned(),
        ],
        Why::BindInProgress { .. } | Why::BindInDoubt { .. } | Why::AlreadyBound { .. } => {
            Vec::new()
        }
    }
}

fn names(group: &Group) -> String {
    let nodes = &group.nodes;
    let named: Vec<&str> = nodes
        .names
        .iter()
        .take(MOST_IN_TEXT)
        .map(NodeName::as_str)
        .collect();
    let more = nodes.count.saturating_sub(named.len());
    match more {
        0 => named.join(", "),
        _ => format!("{} or {more} more", named.join(", ")),
    }
}

fn too_small(short: &Shortage) -> Vec<String> {
    match short {
        Shortage::Cards { there, .. } => vec![
            format!("ask for at most {there} cards"),
            "add a node with more cards".to_owned(),
        ],
        Shortage::Amount(short) => vec![
            ask_for_less(short),
            format!("add a node whose cards have {}", short.units(short.needed)),
        ],
        Shortage::Whole { .. } | Shortage::Together { .. } => vec![
            "ask for less, or for fewer cards".to_owned(),
            "add a node with larger or more cards".to_owned(),
        ],
    }
}

/// The advice says "at least", because something may be missing in another dimension, too.
fn free(short: &Shortage, nodes: &str) -> Vec<String> {
    match short {
        Shortage::Amount(short) => {
            let mut advice = vec![free_amount(short, nodes)];
            if short.most > 0 {
                advice.push(ask_for_less(short));
            }
            advice
        }
        Shortage::Whole { wanted, untouched } => {
            let missing = wanted.saturating_sub(*untouched);
            let s = if missing == 1 { "" } else { "s" };
            vec![
                format!("end the pods on {missing} more card{s} of {nodes}"),
                "ask for a part of a card instead of a whole one".to_owned(),
            ]
        }
        Shortage::Cards { .. } | Shortage::Together { .. } => {
            vec![format!(
                "free room on one card, or on several of one node: {nodes}"
            )]
        }
    }
}

fn free_amount(short: &TooLittle, nodes: &str) -> String {
    let missing = short.units(short.missing());
    let (unit, dimension, needed) = (&short.unit, &short.dimension, short.needed);
    match short.wanted {
        0 | 1 => format!("free at least {missing} on one card of {nodes}"),
        wanted => format!(
            "free {unit} of {dimension} until {wanted} cards of one node have {needed}: {nodes}"
        ),
    }
}

fn ask_for_less(short: &TooLittle) -> String {
    let most = short.units(short.most);
    format!("ask for at most {most} on each card")
}

fn loosen(class: &str, ask: &PodAsk, dialects: &Dialects) -> String {
    let choices = ask.of_class(class).map(|ask| &*ask.choice);
    let mut annotations: Vec<&str> = Vec::new();
    for choice in choices {
        for chooser in &dialects.choosers {
            let name = &*chooser.annotation;
            if *chooser.class == *class
                && restricts(chooser, choice)
                && !annotations.contains(&name)
            {
                annotations.push(name);
            }
        }
    }
    format!("remove or loosen {}", annotations.join(", "))
}

/// Whether this annotation can be the source of the choice.
fn restricts(chooser: &Chooser, choice: &Choice) -> bool {
    let words = |all: &[Pattern]| all.iter().any(|one| matches!(one, Pattern::Words(_)));
    let parts = |all: &[Pattern]| all.iter().any(|one| matches!(one, Pattern::Part(_)));
    match chooser.chooses {
        Chooses::Models => words(&choice.models),
        Chooses::NotModels => words(&choice.not_models),
        Chooses::ModelsLike => parts(&choice.models),
        Chooses::NotModelsLike => parts(&choice.not_models),
        Chooses::Ids => !choice.ids.is_empty(),
        Chooses::NotIds => !choice.not_ids.is_empty(),
        Chooses::Policy => false,
    }
}
