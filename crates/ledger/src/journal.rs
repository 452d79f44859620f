//! Double entry: every movement of GPU time leaves one account and enters another.
//!
//! An entry is a list of transfers, and a transfer has two sides and one amount. So no entry can be out of balance:
//! there is no way to write one side alone, here or in the database.

use std::collections::BTreeMap;
use std::fmt;

use crate::Seconds;
use crate::money::{Amount, MoneyError};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// What a budget has in one of its slots. Its amount, rollover and grants fill it; charges empty it.
    Budget { budget: String, slot: Seconds },
    /// What a namespace has used.
    Usage { namespace: String },
    /// What namespaces that pay from a budget's descendants have used.
    Descendants { budget: String },
    /// Where a budget's amounts come from.
    Amounts { budget: String },
    /// Where a budget's grants come from.
    Grants { budget: String },
    /// Pays for namespaces without a budget.
    Unbudgeted,
}

/// Always a positive amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub from: Account,
    pub to: Account,
    pub amount: Amount,
}

/// A budget and the slot that a charge belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    pub budget: String,
    pub slot: Seconds,
}

impl Leg {
    pub fn new(budget: &str, slot: Seconds) -> Self {
        Self {
            budget: budget.to_owned(),
            slot,
        }
    }
}

impl Account {
    /// Kind, name and slot, which together identify the account.
    pub fn key(&self) -> (&'static str, &str, Seconds) {
        match self {
            Self::Budget { budget, slot } => ("budget", budget, *slot),
            Self::Usage { namespace } => ("usage", namespace, 0),
            Self::Descendants { budget } => ("descendants", budget, 0),
            Self::Amounts { budget } => ("amounts", budget, 0),
            Self::Grants { budget } => ("grants", budget, 0),
            Self::Unbudgeted => ("unbudgeted", "", 0),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key() {
            ("budget", name, slot) => write!(f, "budget {name} from {slot}"),
            (kind, name, _) => write!(f, "{kind} {name}"),
        }
    }
}

/// A namespace uses GPU time. The first leg pays; all further legs count the same amount too.
pub fn charge(namespace: &str, legs: &[Leg], amount: Amount) -> Vec<Transfer> {
    if amount <= Amount::ZERO {
        return Vec::new();
    }
    let usage = Account::Usage {
        namespace: namespace.to_owned(),
    };
    let budget = |leg: &Leg| Account::Budget {
        budget: leg.budget.clone(),
        slot: leg.slot,
    };
    let Some((payer, ancestors)) = legs.split_first() else {
        return vec![Transfer {
            from: Account::Unbudgeted,
            to: usage,
            amount,
        }];
    };
    let paid = Transfer {
        from: budget(payer),
        to: usage,
        amount,
    };
    let counted = ancestors.iter().map(|leg| Transfer {
        from: budget(leg),
        to: Account::Descendants {
            budget: leg.budget.clone(),
        },
        amount,
    });
    [paid].into_iter().chain(counted).collect()
}

/// Raises a budget's amount for a slot, or lowers it if the change is negative.
pub fn issue(leg: &Leg, change: Amount) -> Result<Vec<Transfer>, MoneyError> {
    let source = Account::Amounts {
        budget: leg.budget.clone(),
    };
    supply(source, leg, change)
}

/// Grants a budget more for a slot.
pub fn grant(leg: &Leg, amount: Amount) -> Result<Vec<Transfer>, MoneyError> {
    let source = Account::Grants {
        budget: leg.budget.clone(),
    };
    supply(source, leg, amount)
}

fn supply(source: Account, leg: &Leg, change: Amount) -> Result<Vec<Transfer>, MoneyError> {
    let budget = Account::Budget {
        budget: leg.budget.clone(),
        slot: leg.slot,
    };
    let transfer = match change.cmp(&Amount::ZERO) {
        std::cmp::Ordering::Equal => return Ok(Vec::new()),
        std::cmp::Ordering::Greater => Transfer {
            from: source,
            to: budget,
            amount: change,
        },
        std::cmp::Ordering::Less => Transfer {
            from: budget,
            to: source,
            amount: Amount::ZERO.minus(change)?,
        },
    };
    Ok(vec![transfer])
}

/// Moves what is left of one slot into a later one, up to the cap.
pub fn rollover(
    budget: &str,
    old: Seconds,
    new: Seconds,
    left: Amount,
    cap: Amount,
) -> Vec<Transfer> {
    let amount = left.min(cap);
    if amount <= Amount::ZERO {
        return Vec::new();
    }
    let account = |slot| Account::Budget {
        budget: budget.to_owned(),
        slot,
    };
    vec![Transfer {
        from: account(old),
        to: account(new),
        amount,
    }]
}

/// The same transfers in the opposite direction.
pub fn reversed(transfers: Vec<Transfer>) -> Vec<Transfer> {
    let turn = |Transfer { from, to, amount }| Transfer {
        from: to,
        to: from,
        amount,
    };
    transfers.into_iter().map(turn).collect()
}

/// How each account changes.
pub fn postings(transfers: &[Transfer]) -> Result<BTreeMap<Account, Amount>, MoneyError> {
    let mut postings: BTreeMap<Account, Amount> = BTreeMap::new();
    for transfer in transfers {
        let from = postings.entry(transfer.from.clone()).or_default();
        *from = from.minus(transfer.amount)?;
        let to = postings.entry(transfer.to.clone()).or_default();
        *to = to.plus(transfer.amount)?;
    }
    Ok(postings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(seconds: i64) -> Amount {
        Amount::from_seconds(seconds).unwrap()
    }

    fn check(transfers: &[Transfer], expected: &[(&str, i64)]) {
        let postings = postings(transfers).unwrap();
        assert_eq!(Amount::sum(postings.values().copied()), Ok(Amount::ZERO));
        let read: Vec<(String, i64)> = postings
            .iter()
            .map(|(account, amount)| (account.to_string(), amount.whole_seconds()))
            .collect();
        let expected: Vec<(String, i64)> = expected
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), *amount))
            .collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_charge_is_paid_once_and_counted_by_every_ancestor() {
        check(
            &charge("a", &[Leg::new("leaf", 7), Leg::new("root", 3)], amount(5)),
            &[
                ("budget leaf from 7", -5),
                ("budget root from 3", -5),
                ("usage a", 5),
                ("descendants root", 5),
            ],
        );
        check(
            &charge("a", &[], amount(5)),
            &[("usage a", 5), ("unbudgeted ", -5)],
        );
        assert!(charge("a", &[], Amount::ZERO).is_empty());
    }

    #[test]
    fn amounts_grants_and_what_is_carried_over_fill_a_slot() {
        let slot = Leg::new("b", 7);
        check(
            &issue(&slot, amount(9)).unwrap(),
            &[("budget b from 7", 9), ("amounts b", -9)],
        );
        check(
            &issue(&slot, amount(-9)).unwrap(),
            &[("budget b from 7", -9), ("amounts b", 9)],
        );
        check(
            &grant(&slot, amount(2)).unwrap(),
            &[("budget b from 7", 2), ("grants b", -2)],
        );
        check(
            &rollover("b", 7, 8, amount(5), amount(3)),
            &[("budget b from 7", -3), ("budget b from 8", 3)],
        );
        assert!(rollover("b", 7, 8, amount(-5), amount(3)).is_empty());
    }

    #[test]
    fn a_reversal_undoes_an_entry() {
        let charged = charge("a", &[Leg::new("leaf", 7), Leg::new("root", 3)], amount(5));
        let both: Vec<Transfer> = charged
            .iter()
            .cloned()
            .chain(reversed(charged.clone()))
            .collect();
        let postings = postings(&both).unwrap();
        assert!(postings.values().all(|amount| *amount == Amount::ZERO));
    }
}
