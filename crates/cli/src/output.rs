//! How an answer is printed.

use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Wide,
    Json,
    Yaml,
}

/// A form that a command offers, and what its help says about it.
pub(crate) type Form = (Output, &'static str);

impl Output {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Wide => "wide",
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }

    /// Reads the name of one of these forms.
    pub(crate) fn parser(forms: &'static [Form]) -> ValueParser {
        let known = forms.iter();
        let known = known.map(|(form, about)| PossibleValue::new(form.name()).help(*about));
        ValueParser::new(PossibleValuesParser::new(known).map(|typed: String| {
            let mut forms = forms.iter().map(|(form, _)| *form);
            forms
                .find(|form| form.name() == typed)
                .unwrap_or(Self::Text)
        }))
    }

    /// The answer in this form. `text` writes it for people, with all details if that is wanted.
    pub(crate) fn print(
        self,
        answer: &impl Serialize,
        text: impl FnOnce(bool) -> String,
    ) -> Result<String> {
        Ok(match self {
            Self::Text => text(false),
            Self::Wide => text(true),
            Self::Json => serde_json::to_string_pretty(answer)?,
            Self::Yaml => serde_saphyr::to_string(answer)
                .context("cannot write YAML")?
                .trim_end()
                .to_owned(),
        })
    }
}
