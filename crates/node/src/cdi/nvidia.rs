//! The driver's own CDI specs, as nvidia-ctk generates them.
//!
//! If they exist, their edits for a card are passed on with ours, so that containers get the driver
//! without the nvidia runtime. If not, that runtime adds the driver according to `NVIDIA_VISIBLE_DEVICES`.
//! Blocking file operations.

use std::fs;
use std::path::{Path, PathBuf};

use gpushare_core::CardId;
use gpushare_daemon::files::{self, Links};
use serde::Deserialize;

use super::ContainerEdits;
use super::directory::LARGEST;
use super::spec::OLDEST_VERSION;

const KIND: &str = "nvidia.com/gpu";

/// The directories in which runtimes look for specs.
#[derive(Clone, Debug)]
pub struct DriverSpecs {
    pub directories: Vec<PathBuf>,
}

/// The format of a spec file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

/// What a container needs to use some cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverEdits {
    version: String,
    edits: ContainerEdits,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    cdi_version: String,
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
    /// Common to all devices: the driver's libraries and control device nodes.
    #[serde(default)]
    container_edits: ContainerEdits,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    #[serde(default)]
    container_edits: ContainerEdits,
}

impl DriverSpecs {
    /// The edits for these cards; `None` unless one spec has all of them under their UUIDs.
    pub fn edits<'a>(
        &self,
        cards: &(impl Iterator<Item = &'a CardId> + Clone),
    ) -> Option<DriverEdits> {
        let mut specs = self
            .directories
            .iter()
            .flat_map(|directory| read_specs(directory));
        specs.find_map(|(format, text)| DriverEdits::of_spec(format, &text, cards.clone()))
    }
}

impl Spec {
    fn edits<'a>(&self, cards: impl Iterator<Item = &'a CardId>) -> Option<DriverEdits> {
        let mut edits = self.container_edits.clone();
        for card in cards {
            let device = self
                .devices
                .iter()
                .find(|device| device.name == card.as_str())?;
            edits.add(&device.container_edits);
        }
        Some(DriverEdits {
            version: later(&self.cdi_version, OLDEST_VERSION).to_owned(),
            edits,
        })
    }
}

impl DriverEdits {
    /// The edits for these cards; `None` unless the text is the driver's spec and has all of them
    /// under their UUIDs.
    pub fn of_spec<'a>(
        format: Format,
        text: &str,
        cards: impl Iterator<Item = &'a CardId>,
    ) -> Option<Self> {
        // Avoids parsing specs of other vendors.
        if !text.contains(KIND) {
            return None;
        }
        let spec: Spec = match format {
            Format::Json => serde_json::from_str(text).ok()?,
            Format::Yaml => serde_saphyr::from_str(text).ok()?,
        };
        (spec.kind == KIND).then(|| spec.edits(cards))?
    }

    /// The driver's edits with ours on top: a variable that we set is not taken from the driver.
    ///
    /// In particular the driver's `NVIDIA_VISIBLE_DEVICES=void` must go: applications read the card from this variable.
    pub fn beneath(self, ours: &ContainerEdits) -> (String, ContainerEdits) {
        let mut edits = self.edits;
        edits
            .env
            .retain(|theirs| ours.env.iter().all(|our| variable(our) != variable(theirs)));
        edits.add(ours);
        (self.version, edits)
    }
}

impl ContainerEdits {
    /// Adds what is not there yet.
    fn add(&mut self, more: &Self) {
        merge(&mut self.env, &more.env);
        merge(&mut self.device_nodes, &more.device_nodes);
        merge(&mut self.mounts, &more.mounts);
        merge(&mut self.hooks, &more.hooks);
        merge(&mut self.additional_gids, &more.additional_gids);
    }
}

fn merge<T: PartialEq + Clone>(into: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !into.contains(item) {
            into.push(item.clone());
        }
    }
}

fn variable(assignment: &str) -> &str {
    assignment
        .split_once('=')
        .map_or(assignment, |(name, _)| name)
}

fn later<'a>(one: &'a str, other: &'a str) -> &'a str {
    let numbers = |version: &str| -> Vec<u32> {
        let parts = version.trim_start_matches('v').split('.');
        parts.map(|part| part.parse().unwrap_or(0)).collect()
    };
    if numbers(one) > numbers(other) {
        one
    } else {
        other
    }
}

/// All specs in a directory, of any vendor, in the order of their names.
fn read_specs(directory: &Path) -> Vec<(Format, String)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| read_spec(path)).collect()
}

fn read_spec(path: &Path) -> Option<(Format, String)> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with(super::directory::PREFIX) {
        return None;
    }
    let format = match path.extension()?.to_str()? {
        "json" => Format::Json,
        "yaml" | "yml" => Format::Yaml,
        _ => return None,
    };
    match files::read_text(path, Links::Follow, LARGEST) {
        Ok(text) => Some((format, text)),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "ignoring a CDI spec that cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests;
