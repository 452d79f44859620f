//! The table of what was injected and checked, printed at the end.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    injected: BTreeMap<String, usize>,
    checked: BTreeMap<String, usize>,
}

impl Tally {
    pub fn injected(&mut self, what: impl Into<String>, times: usize) {
        *self.injected.entry(what.into()).or_default() += times;
    }

    pub fn checked(&mut self, what: impl Into<String>, times: usize) {
        *self.checked.entry(what.into()).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.injected {
            self.injected(what, *times);
        }
        for (what, times) in &other.checked {
            self.checked(what, *times);
        }
    }

    pub fn print(&self) {
        for (title, rows) in [("injected", &self.injected), ("checked", &self.checked)] {
            println!("\n{title}");
            for (what, times) in rows {
                println!("{times:>8}  {what}");
            }
        }
    }
}
