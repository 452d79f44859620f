//! Statements: what was charged in a span of time, to the second, by pod, with a total that is the sum of its lines.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use gpushare_ledger::Seconds;
use gpushare_ledger::meter::HeldCard;
use gpushare_ledger::money::Amount;
use gpushare_ledger::period::{Calendar, Schedule, Span};
use gpushare_ledger::store::{self, Of};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::access::Caller;
use super::answers::{self, Line, Statement, Time, time};
use super::problem::Problem;
use super::routes::{Names, Parameters};
use super::{Api, balance, grants, rights};

const KNOWN: [&str; 4] = ["month", "from", "to", "format"];
const LONGEST: Seconds = 400 * 86_400;

pub(super) async fn of_namespace(
    State(api): State<Api>,
    caller: Caller,
    Names { namespace, .. }: Names,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let right = rights::read_statement(&namespace);
    api.require(&caller, &right).await?;
    let payer = api.payer(&namespace)?;
    let zone = payer.and_then(|budget| api.zone(&budget));
    let span = api.span(&parameters, zone)?;
    let of = Of::Namespace(namespace.clone());
    let mut statement = api.statement(of, span).await?;
    statement.namespace = Some(namespace);
    Ok(shown(statement, &parameters, &headers))
}

pub(super) async fn of_budget(
    State(api): State<Api>,
    caller: Caller,
    Names { budget, .. }: Names,
    parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let right = rights::read_budget_statement(&budget);
    api.require(&caller, &right).await?;
    if api.0.books.budget(&budget).is_none() {
        return Err(balance::no_such_budget(&budget));
    }
    let span = api.span(&parameters, api.zone(&budget))?;
    let mut statement = api.statement(Of::Budget(budget.clone()), span).await?;
    let granted = api.0.ledger.grants(&budget).await?;
    let granted = granted.iter().filter(|(at, _)| span.contains(*at));
    let granted = granted.map(|(at, grant)| grants::answer(*at, grant));
    statement.grants = Some(granted.collect());
    statement.budget = Some(budget);
    Ok(shown(statement, &parameters, &headers))
}

impl Api {
    /// The time zone in which the budget's days begin.
    fn zone(&self, budget: &str) -> Option<TimeZone> {
        match self.0.books.budget(budget)?.policy.schedule {
            Schedule::Calendar { zone, .. } => Some(zone),
            Schedule::Rolling { .. } => None,
        }
    }

    /// The requested time: a month, from one moment to another, or the current month.
    fn span(&self, parameters: &Parameters, zone: Option<TimeZone>) -> Result<Span, Problem> {
        parameters.only(&KNOWN)?;
        if let Some(format) = parameters.get("format")
            && !["csv", "json"].contains(&format)
        {
            return Err(Problem::invalid("format", "write csv or json"));
        }
        let month = Schedule::Calendar {
            unit: Calendar::Month,
            zone: zone.unwrap_or(TimeZone::UTC),
        };
        let moment = |name| {
            let text = parameters.get(name);
            text.map(|text| moment(name, text)).transpose()
        };
        let span = match (parameters.get("month"), moment("from")?, moment("to")?) {
            (None, None, None) => month.slot(self.0.books.now())?,
            (Some(text), None, None) => month.slot(within(text)?)?,
            (None, Some(start), Some(end)) => Span { start, end },
            (None, Some(start), None) => Span::new(start, self.0.books.now()),
            (None, None, Some(_)) => {
                return Err(Problem::invalid("from", "to needs it: write both"));
            }
            (Some(_), _, _) => {
                let message = "write either month, or from and to";
                return Err(Problem::invalid("month", message));
            }
        };
        if span.end <= span.start || span.end - span.start > LONGEST {
            let message = "a statement ends after it begins, and at most 400 days later";
            return Err(Problem::invalid("to", message));
        }
        Ok(span)
    }

    async fn statement(&self, of: Of, span: Span) -> Result<Statement, Problem> {
        if let Some(kept) = self.0.ledger.retained().await?
            && span.start < kept
        {
            let from = time(kept).unwrap_or_default().0;
            let message = format!(
                "the single charges before {from} were given up by --retention: ask for a time from there on"
            );
            return Err(Problem::gone(message));
        }
        let lines = self.0.ledger.lines(of, span).await?;
        let total = Amount::sum(lines.iter().map(|line| line.amount))?;
        Ok(Statement {
            namespace: None,
            budget: None,
            from: time(span.start),
            to: time(span.end),
            total_seconds: lines.iter().map(|line| line.seconds).sum(),
            lines: lines.into_iter().map(line).collect(),
            total: total.into(),
            grants: None,
        })
    }
}

fn line(line: store::Line) -> Line {
    Line {
        namespace: line.namespace,
        pod: line.name,
        pod_uid: line.pod.to_string(),
        from: time(line.span.start),
        to: time(line.span.end),
        seconds: line.seconds,
        rate: line.rate.into(),
        formula: line.formula,
        amount: line.amount.into(),
        cards: line.cards.into_iter().map(card).collect(),
    }
}

fn card(HeldCard { id, holding }: HeldCard) -> answers::HeldCard {
    answers::HeldCard {
        id: id.to_string(),
        model: holding.model.to_string(),
        memory: holding.memory.held,
        of_memory: holding.memory.of,
        core_percent: holding.core.held,
    }
}

/// A moment in RFC 3339.
pub(super) fn moment(field: &str, text: &str) -> Result<Seconds, Problem> {
    let moment: Result<Timestamp, _> = text.parse();
    let moment = moment.map_err(|_| {
        Problem::invalid(
            field,
            format!("{text:?} is no time such as 2026-11-16T09:00:00Z"),
        )
    })?;
    Ok(moment.as_second())
}

/// A moment in the middle of a month, which belongs to that month in any time zone.
fn within(text: &str) -> Result<Seconds, Problem> {
    let parsed = text.split_once('-').and_then(|(year, month)| {
        let digits = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(year, 4) || !digits(month, 2) {
            return None;
        }
        let date = Date::new(year.parse().ok()?, month.parse().ok()?, 15).ok()?;
        let middle = date.to_zoned(TimeZone::UTC).ok()?;
        Some(middle.timestamp().as_second())
    });
    parsed.ok_or_else(|| Problem::invalid("month", format!("{text:?} is no month such as 2026-11")))
}

fn shown(statement: Statement, parameters: &Parameters, headers: &HeaderMap) -> Response {
    let accepts_csv = || {
        let accept = headers.get(header::ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        accept.is_some_and(|accept| accept.starts_with("text/csv"))
    };
    let csv = match parameters.get("format") {
        Some(format) => format == "csv",
        None => accepts_csv(),
    };
    if csv {
        let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
        return (kind, csv_of(&statement)).into_response();
    }
    Json(statement).into_response()
}

/// The last row is the total.
fn csv_of(statement: &Statement) -> String {
    let mut text =
        "row,namespace,pod,pod_uid,from,to,seconds,rate,formula,gpu_seconds,cards\r\n".to_owned();
    let mut row = |cells: [&str; 11]| {
        let cells = cells.map(cell);
        let _ = write!(text, "{}\r\n", cells.join(","));
    };
    let time = |time: &Option<Time>| time.clone().unwrap_or_default().0;
    for line in &statement.lines {
        let cards: Vec<String> = line.cards.iter().map(ToString::to_string).collect();
        row([
            "charge",
            &line.namespace,
            &line.pod,
            &line.pod_uid,
            &time(&line.from),
            &time(&line.to),
            &line.seconds.to_string(),
            &line.rate.0,
            &line.formula,
            &line.amount.0,
            &cards.join("; "),
        ]);
    }
    let namespace = statement.namespace.as_deref().unwrap_or_default();
    row([
        "total",
        namespace,
        "",
        "",
        &time(&statement.from),
        &time(&statement.to),
        &statement.total_seconds.to_string(),
        "",
        "",
        &statement.total.0,
        "",
    ]);
    text
}

fn cell(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_four_digits_and_two() {
        assert_eq!(within("2026-11").unwrap(), 1_794_700_800);
        for wrong in [
            "",
            "2026",
            "2026-1",
            "2026-13",
            "2026-00",
            "26-11",
            "2026-11-01",
            "+026-11",
            "x",
        ] {
            assert!(within(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cell_with_a_comma_stays_one_cell() {
        assert_eq!(cell("weighted(1,3)/1"), "\"weighted(1,3)/1\"");
        assert_eq!(cell("a\"b"), "\"a\"\"b\"");
        assert_eq!(cell("max/1"), "max/1");
    }
}
