//! The HTTP interface: bodies in, verbs, bodies out.
//!
//! kube-scheduler drops the body of an answer that is not 200, so what a user must read (a refusal, a
//! failed bind) goes out with 200. Other codes are for requests that could not be understood.

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use gpushare_books::Books;
use gpushare_core::PodAsk;
use gpushare_daemon::admin::Admin;
use gpushare_kube::convert::PodFacts;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use serde::Serialize;

use super::Extender;
use super::bind::BindError;
use super::preempt::answer_preempt;
use super::wire::{Args, BindingArgs, BodyError, ErrorResult};
use super::{explain, filter, inspect, prioritize};

/// The thread on which a request is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// Other requests wait while this thread is busy.
    AsyncThread,
    ItsOwn,
}

/// The result of handling a request.
enum Worked {
    Answered(Response),
    /// It would take too long on this thread.
    NotHere,
}

impl Extender {
    /// All routes: the scheduler's, and those of operators.
    pub fn router(&self) -> Router {
        let verbs = Router::new()
            .route("/filter", verb("filter", Self::filter_verb))
            .route("/prioritize", verb("prioritize", Self::prioritize_verb))
            .route("/bind", verb("bind", answer_bind))
            .route("/preempt", verb("preempt", answer_preempt))
            .route("/inspect", get(inspect_all))
            .route("/inspect/{node}", get(inspect_one))
            .with_state(self.clone());
        let explain = get(explain::of_known).post(explain::of_proposed);
        Router::new()
            .nest("/gpushare-scheduler", verbs)
            .route("/explain", explain.with_state(self.clone()))
            .merge(self.admin_router())
    }

    pub(super) fn admin_router(&self) -> Router {
        let (registry, ready) = (self.0.metrics.registry(), self.clone());
        Admin::new(env!("CARGO_PKG_VERSION"), registry, move || ready.ready()).router()
    }

    async fn filter_verb(self, headers: HeaderMap, body: Body) -> Response {
        self.answer(headers, body, Self::answer_filter).await
    }

    async fn prioritize_verb(self, headers: HeaderMap, body: Body) -> Response {
        self.answer(headers, body, Self::answer_prioritize).await
    }

    fn answer_filter(&self, body: &[u8], on: On) -> Result<Worked, BodyError> {
        let args = Args::parse(body)?;
        if let Err(reason) = self.may_answer() {
            let answer = filter::not_ready(&args.candidates, &reason);
            self.0.metrics.refused(answer.refusals());
            let response = written(StatusCode::OK, answer.write());
            return Ok(Worked::Answered(response));
        }
        let pod = PodFacts::new(&args.pod, &self.0.dialects);
        if takes_long(&pod, on) {
            return Ok(Worked::NotHere);
        }
        let (answer, moment) = {
            let (books, offer) = (self.having_met(&pod), self.0.config.offer);
            let answer = filter::filter(&books, &pod, &args.candidates, offer);
            (answer, books.moment())
        };
        self.0.metrics.refused(answer.refusals());
        let (name, asked) = (
            format_args!("{}/{}", pod.namespace, pod.name),
            answer.asked(),
        );
        if let Some(reason) = answer.why_none() {
            tracing::info!(pod = %name, uid = %pod.uid, asked, reason, "fits no node now");
        } else {
            let refused = answer.refused();
            tracing::debug!(pod = %name, uid = %pod.uid, asked, refused, "filtered");
        }
        let response = written(StatusCode::OK, answer.write());
        if answer.refuses_all() {
            self.refused(pod, args.candidates.names(), moment);
        }
        Ok(Worked::Answered(response))
    }

    /// The books, after the policy has learned from the pod. A read lock suffices except for the few pods that the
    /// scheduler shows before the watch does.
    fn having_met(&self, pod: &PodFacts) -> RwLockReadGuard<'_, Books> {
        let books = self.0.books.read();
        if !books.is_news(pod) {
            return books;
        }
        drop(books);
        let mut books = self.0.books.write();
        books.meet(pod);
        RwLockWriteGuard::downgrade(books)
    }

    fn answer_prioritize(&self, body: &[u8], on: On) -> Result<Worked, BodyError> {
        let args = Args::parse(body)?;
        let pod = PodFacts::new(&args.pod, &self.0.dialects);
        if takes_long(&pod, on) {
            return Ok(Worked::NotHere);
        }
        let leads = self.may_answer();
        let books = self.0.books.read();
        if let Err(missing) = leads.and_then(|_| books.ready().map_err(str::to_owned)) {
            let message = format!("gpushare: {missing}");
            let response = error_response(StatusCode::SERVICE_UNAVAILABLE, message);
            return Ok(Worked::Answered(response));
        }
        let scores = prioritize::prioritize(&books, &pod, &args.candidates);
        drop(books);
        Ok(Worked::Answered(json(StatusCode::OK, &scores)))
    }

    /// Reads and parses the body; an error is the answer to it.
    pub(super) async fn parse<T: Send + 'static>(
        &self,
        headers: &HeaderMap,
        body: Body,
        parse: fn(&[u8]) -> Result<T, BodyError>,
    ) -> Result<T, Response> {
        let body = self.0.body_room.read(headers, body).await?;
        let parsed = body.work(parse).await;
        parsed
            .map_err(|error| internal_error(&error))?
            .map_err(|error| bad_request(&error))
    }

    /// Reads the body and answers it, off the async threads if it is large or may take long.
    async fn answer(
        self,
        headers: HeaderMap,
        body: Body,
        answer: fn(&Self, &[u8], On) -> Result<Worked, BodyError>,
    ) -> Response {
        let body = match self.0.body_room.read(&headers, body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        if body.is_small() {
            match answer(&self, &body.bytes, On::AsyncThread) {
                Ok(Worked::Answered(response)) => return response,
                Ok(Worked::NotHere) => {}
                Err(error) => return bad_request(&error),
            }
        }
        let work = move |body: &[u8]| answer(&self, body, On::ItsOwn);
        match body.work_beside(work).await {
            Ok(Ok(Worked::Answered(response))) => response,
            Ok(Ok(Worked::NotHere)) => {
                let message = "gpushare: the request was not worked on".to_owned();
                error_response(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
            Ok(Err(error)) => bad_request(&error),
            Err(error) => internal_error(&error),
        }
    }
}

/// Whether the request is too long for an async thread: a pod with several containers may take a thousand times as
/// long as one with a single container.
fn takes_long(pod: &PodFacts, on: On) -> bool {
    let ask = pod.ask.as_ref().ok().and_then(Option::as_ref);
    on == On::AsyncThread && ask.is_some_and(PodAsk::is_complex)
}

/// A verb of the scheduler, whose answers are counted under its name.
fn verb<A: Future<Output = Response> + Send + 'static>(
    name: &'static str,
    answer: fn(Extender, HeaderMap, Body) -> A,
) -> MethodRouter<Extender> {
    let counted = async move |State(extender): State<Extender>, headers, body| {
        let (started, metrics) = (Instant::now(), extender.0.metrics.clone());
        let response = answer(extender, headers, body).await;
        metrics.answered(name, response.status(), started.elapsed());
        response
    };
    post(counted)
}

async fn answer_bind(extender: Extender, headers: HeaderMap, body: Body) -> Response {
    let args = match extender.parse(&headers, body, BindingArgs::parse).await {
        Ok(args) => args,
        Err(refusal) => return refusal,
    };
    tracing::debug!(
        pod = %format_args!("{}/{}", args.namespace, args.name), uid = %args.pod, node = %args.node,
        "bind requested"
    );
    // A separate task: if the scheduler's connection breaks, the bind must still end in a known
    // state.
    let tasks = extender.0.tasks.clone();
    let bind = extender.0.binds.clone().track_future(async move {
        let bound = extender.bind(args).await;
        let outcome = bound.as_ref().map_or_else(BindError::label, |()| "bound");
        extender.0.metrics.bound(outcome);
        bound
    });
    match tasks.job(bind).await {
        Ok(Ok(())) => json(StatusCode::OK, &ErrorResult::default()),
        Ok(Err(error)) => error_response(StatusCode::OK, format!("gpushare: {error}")),
        Err(error) => internal_error(&error),
    }
}

async fn inspect_all(State(extender): State<Extender>) -> Response {
    let inspection = inspect::all(&extender.0.books.read(), extender.0.config.aliyun_unit);
    json(StatusCode::OK, &inspection)
}

async fn inspect_one(State(extender): State<Extender>, Path(node): Path<String>) -> Response {
    let unit = extender.0.config.aliyun_unit;
    match inspect::one(&extender.0.books.read(), &node, unit) {
        Ok(inspection) => json(StatusCode::OK, &inspection),
        Err(unknown) => json(StatusCode::NOT_FOUND, &unknown),
    }
}

pub(super) fn bad_request(error: &BodyError) -> Response {
    error_response(StatusCode::BAD_REQUEST, format!("gpushare: {error}"))
}

pub(super) fn internal_error(error: &tokio::task::JoinError) -> Response {
    tracing::error!(%error, "a request could not be answered");
    error_response(
        StatusCode::INTERNAL_SERVER_ERROR,
        format!("gpushare: the request could not be answered: {error}"),
    )
}

pub(super) fn error_response(status: StatusCode, error: String) -> Response {
    json(status, &ErrorResult { error })
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    written(status, serde_json::to_vec(value))
}

fn written(status: StatusCode, body: serde_json::Result<Vec<u8>>) -> Response {
    match body {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            let message = format!("gpushare: the answer cannot be written: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }
}
