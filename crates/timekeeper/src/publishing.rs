//! Publishes how budgets stand: their status and Events, when there is news and not more often.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use gpushare_core::names::event;
use gpushare_kube::gpu_budget::publish::{self, News};
use gpushare_kube::gpu_budget::{GpuBudget, GpuBudgetStatus};
use gpushare_kube::notice::Severity;
use jiff::Timestamp;
use kube::ResourceExt;

use super::Timekeeper;
use super::payers::{Payers, Problem};
use super::status::{Figures, exhaustion, is_news, status, without_ledger};

/// Concurrent requests.
const AT_ONCE: usize = 16;
/// How long a watch may take to show what was written.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// What was published in this term.
#[derive(Debug)]
pub(super) struct Publisher {
    /// The pause between two statuses that differ only because time has passed.
    pause: Duration,
    written: BTreeMap<String, Written>,
    /// How often each Event was posted.
    events: BTreeMap<(String, &'static str), u32>,
}

#[derive(Debug)]
struct Written {
    uid: Option<String>,
    status: GpuBudgetStatus,
    at: Instant,
}

/// Something to be sent about one budget.
#[derive(Debug)]
struct Telling {
    budget: GpuBudget,
    /// `None` if it may stay as it is.
    status: Option<GpuBudgetStatus>,
    news: Vec<(News, u32)>,
}

impl Publisher {
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            pause,
            written: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    /// The current status of the budget, as far as is known.
    fn standing<'a>(&'a self, budget: &'a GpuBudget) -> Option<&'a GpuBudgetStatus> {
        let written = self.written.get(&budget.name_any());
        let fresh = written
            .filter(|written| written.uid == budget.uid() && written.at.elapsed() < SHOWN_WITHIN);
        let shown = budget.status.as_ref();
        fresh.map_or(shown, |written| Some(&written.status))
    }

    /// Whether it is time to write this status in place of that one.
    fn is_due(
        &self,
        budget: &GpuBudget,
        before: Option<&GpuBudgetStatus>,
        now: &GpuBudgetStatus,
    ) -> bool {
        let rested = || {
            let written = self.written.get(&budget.name_any());
            written.is_none_or(|written| written.at.elapsed() >= self.pause)
        };
        before != Some(now) && (is_news(before, now) || rested())
    }

    fn count(&mut self, budget: &str, reason: &'static str) -> u32 {
        let times = self.events.entry((budget.to_owned(), reason)).or_default();
        *times += 1;
        *times
    }
}

impl Timekeeper {
    pub(super) async fn publish(
        &self,
        publisher: &mut Publisher,
        budgets: &BTreeMap<String, GpuBudget>,
        payers: &Payers,
        figures: &BTreeMap<String, Figures>,
        opened: &[String],
    ) {
        let now = self.clock().now();
        let mut tellings = Vec::new();
        for (name, budget) in budgets {
            let Some(payer) = payers.budget(name) else {
                continue;
            };
            let figures = figures.get(name);
            let before = publisher.standing(budget);
            let status = status(budget, before, figures, payer.problem.as_ref(), now);
            let mut news: Vec<News> = turned(before, &status, figures).into_iter().collect();
            news.extend(opened.contains(name).then(|| begun(&status)));
            let due = publisher.is_due(budget, before, &status);
            let news: Vec<(News, u32)> = news
                .into_iter()
                .map(|news| {
                    let times = publisher.count(name, news.reason);
                    (news, times)
                })
                .collect();
            if due || !news.is_empty() {
                tellings.push(Telling {
                    budget: budget.clone(),
                    status: due.then_some(status),
                    news,
                });
            }
        }
        publisher
            .written
            .retain(|name, _| budgets.contains_key(name));
        self.tell_all(publisher, tellings).await;
    }

    /// Reports in the status of every budget that the ledger cannot be used. The numbers stay as they were.
    pub(super) async fn publish_problem(&self, publisher: &mut Publisher, problem: &Problem) {
        let budgets = self.view().budgets.clone().unwrap_or_default();
        let now = self.clock().now();
        let mut tellings = Vec::new();
        for budget in budgets.into_values() {
            let before = publisher.standing(&budget);
            let status = without_ledger(&budget, before, problem, now);
            if publisher.is_due(&budget, before, &status) {
                tellings.push(Telling {
                    budget,
                    status: Some(status),
                    news: Vec::new(),
                });
            }
        }
        self.tell_all(publisher, tellings).await;
    }

    async fn tell_all(&self, publisher: &mut Publisher, tellings: Vec<Telling>) {
        let told = stream::iter(tellings).map(|telling| self.tell(telling));
        let told: Vec<Option<(String, Written)>> = told.buffer_unordered(AT_ONCE).collect().await;
        publisher.written.extend(told.into_iter().flatten());
    }

    /// Returns what was written.
    async fn tell(&self, telling: Telling) -> Option<(String, Written)> {
        // A leader that was replaced must not publish what it last knew.
        self.leadership().term()?;
        let Telling {
            budget,
            status,
            news,
        } = telling;
        for (news, times) in news {
            let (message, now) = (&news.message, Timestamp::now());
            tracing::info!(budget = budget.name_any(), reason = news.reason, message);
            let posted = publish::news(self.client(), &budget, &news, times, now).await;
            if let Err(error) = posted {
                tracing::warn!(%error, "an event is lost");
            }
        }
        let status = status?;
        match publish::status(self.client(), &budget, &status).await {
            Ok(()) => {
                let written = Written {
                    uid: budget.uid(),
                    status,
                    at: Instant::now(),
                };
                Some((budget.name_any(), written))
            }
            Err(error) => {
                self.0.metrics.status_failed();
                tracing::warn!(%error, "trying again");
                None
            }
        }
    }
}

/// A budget became exhausted, or has something left again.
fn turned(
    before: Option<&GpuBudgetStatus>,
    now: &GpuBudgetStatus,
    figures: Option<&Figures>,
) -> Option<News> {
    let was = before.is_some_and(|before| before.exhausted);
    let figures = figures.filter(|_| was != now.exhausted)?;
    Some(if now.exhausted {
        let (_, message) = exhaustion(figures);
        News {
            reason: event::EXHAUSTED,
            severity: Severity::Warning,
            message,
        }
    } else {
        News {
            reason: event::RESTORED,
            severity: Severity::Normal,
            message: format!("{} remain again", figures.standing.remaining),
        }
    })
}

fn begun(status: &GpuBudgetStatus) -> News {
    let remaining = status.remaining.as_deref().unwrap_or("nothing");
    News {
        reason: event::PERIOD_OPENED,
        severity: Severity::Normal,
        message: format!("a new period has begun; {remaining} remain"),
    }
}
