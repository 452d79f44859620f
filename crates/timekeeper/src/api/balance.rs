//! The standing of budgets: the ledger's sums and what runs now.

use axum::Json;
use axum::extract::State;
use gpushare_ledger::Seconds;
use gpushare_ledger::forecast::{self, BudgetStanding, Sums};
use gpushare_ledger::period::{Schedule, Span};
use gpushare_ledger::store::Supply;

use super::access::Caller;
use super::answers::{self, Balance, Balances, BudgetSummary, time, when_exhausted};
use super::problem::Problem;
use super::routes::Names;
use super::{Api, Budget, Payer, rights};

/// A budget's numbers at one moment.
pub(super) struct Stand {
    pub(super) budget: Budget,
    pub(super) supply: Supply,
    pub(super) counted: Span,
    /// Takes its ancestors into account.
    pub(super) standing: BudgetStanding,
    pub(super) at: Seconds,
}

pub(super) async fn of_namespace(
    State(api): State<Api>,
    caller: Caller,
    Names { namespace, .. }: Names,
) -> Result<Json<Balance>, Problem> {
    api.require_balance(&caller, &namespace).await?;
    let Some(stand) = api.stand_of_namespace(&namespace).await? else {
        let message =
            format!("no budget pays for the namespace {namespace:?}, so nothing limits it");
        return Err(Problem::not_found("NoBudget", message));
    };
    let mut balance = stand.balance();
    balance.namespace = Some(namespace);
    Ok(Json(balance))
}

pub(super) async fn of_pod(
    State(api): State<Api>,
    caller: Caller,
    Names {
        namespace,
        pod: name,
        ..
    }: Names,
) -> Result<Json<answers::Pod>, Problem> {
    api.require_balance(&caller, &namespace).await?;
    let stand = api.stand_of_namespace(&namespace).await?;
    let likely = caller.pod();
    let Some(pod) = api.0.books.pod(&namespace, &name, likely.as_ref()) else {
        let message = format!("there is no pod {namespace}/{name} that asks for GPUs");
        return Err(Problem::not_found("NoPod", message));
    };
    Ok(Json(answers::Pod {
        over_budget: stand.as_ref().is_some_and(|stand| stand.standing.exhausted),
        budget: stand.map(|stand| stand.summary()),
        evict_at: pod.evict_at.and_then(time),
        namespace,
        name,
    }))
}

pub(super) async fn of_all(
    State(api): State<Api>,
    caller: Caller,
) -> Result<Json<Balances>, Problem> {
    api.require(&caller, &rights::list_budgets()).await?;
    let mut budgets = Vec::new();
    for name in api.0.books.budgets() {
        // A budget that was deleted meanwhile is left out.
        if let Some(stand) = api.stand(&name).await? {
            budgets.push(stand.balance());
        }
    }
    Ok(Json(Balances { budgets }))
}

pub(super) async fn of_budget(
    State(api): State<Api>,
    caller: Caller,
    Names { budget: name, .. }: Names,
) -> Result<Json<Balance>, Problem> {
    api.require(&caller, &rights::read_budget(&name)).await?;
    let stand = api.stand(&name).await?;
    let stand = stand.ok_or_else(|| no_such_budget(&name))?;
    Ok(Json(stand.balance()))
}

pub(super) fn no_such_budget(name: &str) -> Problem {
    let message = format!(
        "there is no budget {name:?} that can be charged: see kubectl get gpubudgets, column READY"
    );
    Problem::not_found("NoSuchBudget", message)
}

impl Api {
    /// The budget that pays for a namespace, if any.
    pub(super) fn payer(&self, namespace: &str) -> Result<Option<String>, Problem> {
        match self.0.books.payer(namespace) {
            Payer::Budget(name) => Ok(Some(name)),
            Payer::Nobody => Ok(None),
            Payer::Ambiguous => {
                let message = format!(
                    "several budgets select the namespace {namespace:?} equally specifically, so none pays for it: \
                     a budget administrator must change one of them"
                );
                Err(Problem::not_found("AmbiguousNamespaces", message))
            }
            Payer::Unknown => {
                let message = format!("there is no namespace {namespace:?}");
                Err(Problem::not_found("NoSuchNamespace", message))
            }
        }
    }

    pub(super) async fn stand_of_namespace(
        &self,
        namespace: &str,
    ) -> Result<Option<Stand>, Problem> {
        match self.payer(namespace)? {
            Some(name) => self.stand(&name).await,
            None => Ok(None),
        }
    }

    /// `None` if there is no such budget.
    pub(super) async fn stand(&self, name: &str) -> Result<Option<Stand>, Problem> {
        let at = self.0.books.now();
        let Some(mut stand) = self.stand_alone(name, at).await? else {
            return Ok(None);
        };
        let mut ancestors = Vec::new();
        for name in &stand.budget.ancestors {
            let ancestor = self.stand_alone(name, at).await?;
            ancestors.extend(ancestor.map(|ancestor| ancestor.standing));
        }
        stand.standing = forecast::with_ancestors(stand.standing, ancestors);
        Ok(Some(stand))
    }

    async fn stand_alone(&self, name: &str, at: Seconds) -> Result<Option<Stand>, Problem> {
        let Some(budget) = self.0.books.budget(name) else {
            return Ok(None);
        };
        let counted = budget.policy.schedule.counted(at)?;
        let mut supply = self.0.ledger.supply(name, counted).await?;
        // What is held and what is charged must come from the same moment, or some time would count twice.
        if let Some((start, used)) = budget.used
            && start == counted.start
        {
            supply.used = used;
        }
        // Uses the current amount; the ledger follows in the next round.
        let supplied = budget.policy.amount.plus(supply.carried)?;
        let sums = Sums {
            supplied: supplied.plus(supply.granted)?,
            used: supply.used,
            held: budget.held,
            rate: budget.rate,
        };
        let standing = forecast::standing(&sums, at, period_end(&budget, counted))?;
        Ok(Some(Stand {
            budget,
            supply,
            counted,
            standing,
            at,
        }))
    }
}

/// The end of the period; a rolling window has none.
fn period_end(budget: &Budget, counted: Span) -> Option<Seconds> {
    let calendar = matches!(budget.policy.schedule, Schedule::Calendar { .. });
    calendar.then_some(counted.end)
}

impl Stand {
    pub(super) fn balance(&self) -> Balance {
        let Self {
            budget,
            supply,
            counted,
            standing,
            at,
        } = self;
        Balance {
            namespace: None,
            budget: budget.name.clone(),
            when_exhausted: when_exhausted(budget.policy.when_exhausted),
            amount: budget.policy.amount.into(),
            granted: supply.granted.into(),
            carried_over: supply.carried.into(),
            used: supply.used.into(),
            held: budget.held.into(),
            remaining: standing.remaining.into(),
            exhausted: standing.exhausted,
            exhausts_at: standing.exhausts_at.and_then(time),
            period_starts: time(counted.start),
            period_ends: period_end(budget, *counted).and_then(time),
            at: time(*at),
        }
    }
    fn summary(&self) -> BudgetSummary {
        BudgetSummary {
            name: self.budget.name.clone(),
            when_exhausted: when_exhausted(self.budget.policy.when_exhausted),
            remaining: self.standing.remaining.into(),
            remaining_seconds: self.standing.remaining.whole_seconds(),
            exhausted: self.standing.exhausted,
            exhausts_at: self.standing.exhausts_at.and_then(time),
            period_ends: period_end(&self.budget, self.counted).and_then(time),
        }
    }
}
