//! How budgets stand: what the ledger has, what runs, and what follows from both.

use std::collections::BTreeMap;

use gpushare_ledger::forecast::{BudgetStanding, Sums, standing, with_ancestors};
use gpushare_ledger::money::{Amount, MoneyError, Rate};
use gpushare_ledger::opening::supplied;
use gpushare_ledger::period::Schedule;

use super::{RecordError, Snapshot, Timekeeper};
use crate::books::Books;
use crate::due::DueCharges;
use crate::payers::Payer;
use crate::status::Figures;

/// The figures of each budget with valid terms.
pub(crate) type AllFigures = BTreeMap<String, Figures>;

impl Timekeeper {
    pub(super) async fn figures(
        &self,
        books: &mut Books,
        snapshot: &Snapshot,
        charged: &[DueCharges],
    ) -> Result<AllFigures, RecordError> {
        let running = running(charged);
        let payers = books.payers.clone();
        let mut all = AllFigures::new();
        for (budget, policy, _) in payers.understood() {
            let Ok(counted) = policy.schedule.counted(snapshot.now) else {
                continue;
            };
            let balance = books.balance(self.ledger(), budget, counted).await?;
            let (held, rate) = running.get(budget).copied().unwrap_or_default();
            let sums = supplied(policy, &balance).map(|supplied| Sums {
                supplied,
                used: balance.used,
                held,
                rate,
            });
            let calendar = matches!(policy.schedule, Schedule::Calendar { .. });
            let (start, end) = Figures::period(counted, calendar);
            let figures = sums.and_then(|sums| {
                let own = standing(&sums, snapshot.now, end)?;
                Ok(Figures {
                    sums,
                    own,
                    standing: own,
                    exhausted_ancestor: None,
                    start,
                    end,
                })
            });
            match figures {
                Ok(figures) => {
                    all.insert(budget.to_owned(), figures);
                }
                Err(error) => tracing::error!(budget, %error, "a budget cannot be summed up"),
            }
        }
        for (budget, _, payer) in payers.understood() {
            count_ancestors(&mut all, budget, payer);
        }
        Ok(all)
    }
}

/// What running pods have accrued and not been charged yet, and how fast, by budget.
fn running(charged: &[DueCharges]) -> BTreeMap<&str, (Amount, Rate)> {
    let mut running: BTreeMap<&str, (Amount, Rate)> = BTreeMap::new();
    for charged in charged {
        for budget in &charged.budgets {
            let (held, rate) = running.entry(budget).or_default();
            let sums: Result<_, MoneyError> = held
                .plus(charged.plan.held)
                .and_then(|held| Ok((held, rate.plus(charged.rate())?)));
            if let Ok(sums) = sums {
                (*held, *rate) = sums;
            }
        }
    }
    running
}

fn count_ancestors(all: &mut AllFigures, budget: &str, payer: &Payer) {
    let above = payer.chain.iter().skip(1);
    let above: Vec<(String, BudgetStanding)> = above
        .filter_map(|link| {
            let own = all.get(&link.tier.budget)?.own;
            Some((link.tier.budget.clone(), own))
        })
        .collect();
    if let Some(figures) = all.get_mut(budget) {
        let standings = above.iter().map(|(_, standing)| *standing);
        figures.standing = with_ancestors(figures.own, standings);
        let mut exhausted = above.into_iter().filter(|(_, standing)| standing.exhausted);
        figures.exhausted_ancestor = exhausted.next().map(|(name, _)| name);
    }
}
