//! Everything that was written in a span of time, for other programs: one posting per line, read page by page.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::{Posting, Side, StoreError};

use super::access::Caller;
use super::answers::{self, ChargedTime, time};
use super::problem::Problem;
use super::routes::Parameters;
use super::statement::moment;
use super::{Api, rights};

/// How many postings are in memory at once.
const PAGE: u32 = 1_000;

pub(super) async fn export(
    State(api): State<Api>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, Problem> {
    api.require(&caller, &rights::export()).await?;
    parameters.only(&["from", "to"])?;
    let at = |name, otherwise: Seconds| {
        let given = parameters.get(name).map(|text| moment(name, text));
        given.unwrap_or(Ok(otherwise))
    };
    let written = Span::new(at("from", Seconds::MIN)?, at("to", Seconds::MAX)?);
    // An error on the first page gets a proper answer; a later error cuts the answer short.
    let first = api.0.ledger.postings(written, 0, PAGE).await?;
    let pages = stream::try_unfold(Some(first), move |page: Option<Vec<Posting>>| {
        let api = api.clone();
        async move {
            let Some(page) = page else { return Ok(None) };
            let Some(last) = page.last().map(|posting| posting.id) else {
                return Ok(None);
            };
            let text = lines(page)?;
            let next = api.0.ledger.postings(written, last, PAGE).await?;
            Ok::<_, StoreError>(Some((text, Some(next))))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, Body::from_stream(pages)).into_response())
}

fn lines(page: Vec<Posting>) -> Result<Bytes, StoreError> {
    let mut text = Vec::new();
    for posting in page {
        let unwritable = |error: serde_json::Error| StoreError::Refused(error.to_string());
        serde_json::to_writer(&mut text, &answer(posting)).map_err(unwritable)?;
        text.push(b'\n');
    }
    Ok(text.into())
}

fn answer(posting: Posting) -> answers::Posting {
    answers::Posting {
        id: posting.id,
        entry: posting.entry,
        kind: posting.kind,
        written_at: time(posting.written),
        from: side(posting.from),
        to: side(posting.to),
        amount: posting.amount.into(),
        author: posting.author,
        reason: posting.reason,
        held: posting.held.map(|held| ChargedTime {
            namespace: held.namespace,
            pod: held.name,
            pod_uid: held.pod.to_string(),
            from: time(held.span.start),
            to: time(held.span.end),
            rate: held.rate.into(),
        }),
    }
}

fn side(side: Side) -> answers::Side {
    let slot = Some(side.slot).filter(|_| side.kind == "budget");
    answers::Side {
        account: side.kind,
        name: side.name,
        period_starts: slot.and_then(time),
    }
}
