//! A budget's terms, parsed once from the texts of its object; the texts are not read again afterwards.

use gpushare_kube::gpu_budget::{
    self, AmountText, FormulaKind, GpuBudgetSpec, PeriodKind, WhenExhausted,
};
use thiserror::Error;

use crate::Seconds;
use crate::money::{Amount, MoneyError, Rate};
use crate::period::{Calendar, PeriodError, Schedule};
use crate::price::{Formula, Prices};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For each period.
    pub amount: Amount,
    pub schedule: Schedule,
    /// At most this much is carried into the next period.
    pub rollover_cap: Amount,
    pub prices: Prices,
    pub formula: Formula,
    pub when_exhausted: Exhaustion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    Demote,
    ThrottleNew,
    EvictAfter(Seconds),
}

/// An error that the API server's validation should have prevented, so the message only says what is wrong.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PolicyError {
    #[error(transparent)]
    Money(#[from] MoneyError),
    #[error(transparent)]
    Period(#[from] PeriodError),
    #[error(
        "formula Weighted needs weights from 0 to 1000 for memory and core, and one of them above 0"
    )]
    Weights,
    #[error("graceSeconds is {0}, it must not be negative")]
    Grace(i64),
}

impl TryFrom<&GpuBudgetSpec> for Policy {
    type Error = PolicyError;

    fn try_from(spec: &GpuBudgetSpec) -> Result<Self, PolicyError> {
        let prices = spec.prices.iter().map(|priced| {
            let price = Rate::parse_price(&priced.price)?;
            Ok((priced.model.as_str(), price))
        });
        let prices: Vec<(&str, Rate)> = prices.collect::<Result<_, MoneyError>>()?;
        let cap = spec.rollover_cap.as_ref().map(amount).transpose()?;
        Ok(Self {
            amount: amount(&spec.amount)?,
            schedule: schedule(&spec.period)?,
            rollover_cap: cap.unwrap_or_default(),
            prices: Prices::new(prices),
            formula: formula(&spec.formula)?,
            when_exhausted: exhaustion(spec)?,
        })
    }
}

/// An amount as people write it; it must be positive.
pub fn amount(text: &AmountText) -> Result<Amount, MoneyError> {
    match text {
        AmountText::Seconds(seconds) if *seconds > 0 => Amount::from_seconds(*seconds),
        AmountText::Seconds(seconds) => Err(MoneyError::Amount(seconds.to_string())),
        AmountText::Text(text) => Amount::parse_duration(text),
    }
}

fn schedule(period: &gpu_budget::Period) -> Result<Schedule, PeriodError> {
    let calendar = |unit| Schedule::calendar(unit, &period.time_zone);
    match period.kind {
        PeriodKind::Month => calendar(Calendar::Month),
        PeriodKind::Week => calendar(Calendar::Week),
        PeriodKind::Day => calendar(Calendar::Day),
        PeriodKind::Rolling => Schedule::rolling(period.window.as_deref().unwrap_or_default()),
    }
}

fn formula(formula: &gpu_budget::Formula) -> Result<Formula, PolicyError> {
    let weight = |weight: Option<i64>| {
        let weight = weight.filter(|weight| (0..=1000).contains(weight));
        weight
            .and_then(|weight| u32::try_from(weight).ok())
            .ok_or(PolicyError::Weights)
    };
    match formula.kind {
        FormulaKind::Max => Ok(Formula::Max),
        FormulaKind::Weighted => match (weight(formula.memory)?, weight(formula.core)?) {
            (0, 0) => Err(PolicyError::Weights),
            (memory, core) => Ok(Formula::Weighted { memory, core }),
        },
    }
}

fn exhaustion(spec: &GpuBudgetSpec) -> Result<Exhaustion, PolicyError> {
    match (spec.when_exhausted, spec.grace_seconds.unwrap_or(0)) {
        (WhenExhausted::Demote, _) => Ok(Exhaustion::Demote),
        (WhenExhausted::ThrottleNew, _) => Ok(Exhaustion::ThrottleNew),
        (WhenExhausted::EvictWithGrace, grace) if grace >= 0 => Ok(Exhaustion::EvictAfter(grace)),
        (WhenExhausted::EvictWithGrace, grace) => Err(PolicyError::Grace(grace)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolve(spec: Value) -> Result<Policy, PolicyError> {
        let spec: GpuBudgetSpec = serde_json::from_value(spec).unwrap();
        Policy::try_from(&spec)
    }

    #[test]
    fn texts_become_amounts() {
        let policy = resolve(json!({
            "amount": "20h", "rolloverCap": 3600,
            "prices": [{"model": "A100*", "price": "2.5"}],
            "formula": {"kind": "Weighted", "memory": 1, "core": 3},
            "period": {"kind": "Rolling", "window": "7d"},
            "whenExhausted": "EvictWithGrace", "graceSeconds": 60,
        }))
        .unwrap();
        assert_eq!(policy.amount.whole_seconds(), 72_000);
        assert_eq!(policy.rollover_cap.whole_seconds(), 3_600);
        assert_eq!(policy.prices.of("A100-80GB").micros(), 2_500_000);
        assert_eq!(policy.formula.to_string(), "weighted(1,3)/1");
        assert_eq!(policy.schedule, Schedule::rolling("7d").unwrap());
        assert_eq!(policy.when_exhausted, Exhaustion::EvictAfter(60));
    }

    #[test]
    fn what_a_schema_did_not_stop_is_refused() {
        for wrong in [
            json!({"amount": 0}),
            json!({"amount": "x"}),
            json!({"amount": "1h", "prices": [{"model": "a", "price": "x"}]}),
            json!({"amount": "1h", "period": {"timeZone": "Nowhere"}}),
            json!({"amount": "1h", "period": {"kind": "Rolling"}}),
            json!({"amount": "1h", "formula": {"kind": "Weighted", "memory": 0, "core": 0}}),
            json!({"amount": "1h", "formula": {"kind": "Weighted", "memory": -1, "core": 5}}),
            json!({"amount": "1h", "whenExhausted": "EvictWithGrace", "graceSeconds": -1}),
        ] {
            assert!(resolve(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
