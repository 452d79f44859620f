//! Supervised tasks and one way to stop them all.
//!
//! A service must live as long as the process: if one ends early or panics, the process shuts down and
//! reports which one and why, instead of running without it. A job is a piece of work that shutdown waits for.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone, Debug, Default)]
pub struct Tasks {
    shutdown: CancellationToken,
    tracker: TaskTracker,
    failure: Arc<OnceLock<TaskFailure>>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{task} stopped: {reason}")]
pub struct TaskFailure {
    pub task: &'static str,
    pub reason: String,
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the process is to end. Services return then.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Runs a service: if it ends before shutdown for any reason, the process ends.
    pub fn service<E: std::fmt::Display + Send + 'static>(
        &self,
        name: &'static str,
        service: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        // The inner task turns a panic into a value.
        let running = self.tracker.spawn(service);
        let tasks = self.clone();
        self.tracker.spawn(async move {
            let reason = match running.await {
                Ok(Ok(())) if tasks.shutdown.is_cancelled() => return,
                Ok(Ok(())) => "it ended without being asked to".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::error!(task = name, reason, "a service stopped; shutting down");
            let _first_failure_wins = tasks.failure.set(TaskFailure { task: name, reason });
            tasks.shutdown.cancel();
        });
    }

    /// Runs a service that never ends by itself, such as a watch: shutdown drops it at any point.
    pub fn endless(&self, name: &'static str, service: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.service(name, async move {
            shutdown.run_until_cancelled(service).await;
            Ok::<(), Infallible>(())
        });
    }

    /// Runs a piece of work to its end, even if the caller stops waiting for the result.
    pub fn job<T: Send + 'static>(
        &self,
        job: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tracker.spawn(job)
    }

    /// Ends the process on SIGTERM or SIGINT.
    pub fn stop_on_signals(&self) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = self.shutdown.clone();
        self.tracker.spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                () = shutdown.cancelled() => return,
            };
            tracing::info!(signal = name, "shutting down");
            shutdown.cancel();
        });
        Ok(())
    }

    /// Waits for shutdown, then for every service and job, at most `grace`.
    pub async fn finished(self, grace: Duration) -> Result<(), TaskFailure> {
        self.shutdown.cancelled().await;
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait())
            .await
            .is_err()
        {
            tracing::warn!(left = self.tracker.len(), "some work did not end in time");
        }
        self.failure
            .get()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    async fn reason_of(tasks: Tasks) -> String {
        tasks.finished(GRACE).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_service_that_panics_ends_the_process_with_its_name() {
        let tasks = Tasks::new();
        let events: Vec<String> = Vec::new();
        tasks.service("the watch", async move {
            Err::<(), _>(events.first().expect("the index is broken").clone())
        });
        let reason = reason_of(tasks).await;
        assert!(reason.starts_with("the watch stopped:"), "{reason}");
        assert!(reason.contains("the index is broken"), "{reason}");
    }

    #[tokio::test]
    async fn a_service_that_ends_early_or_fails_ends_the_process() {
        let tasks = Tasks::new();
        tasks.service("idle", async { Ok::<(), String>(()) });
        assert!(reason_of(tasks).await.contains("without being asked"));

        let tasks = Tasks::new();
        tasks.service("broken", async { Err("no route") });
        assert_eq!(reason_of(tasks).await, "broken stopped: no route");
    }

    #[tokio::test]
    async fn an_endless_service_ends_with_shutdown_and_not_before() {
        let tasks = Tasks::new();
        tasks.endless("the watch", std::future::pending());
        tasks.shutdown().cancel();
        assert_eq!(tasks.finished(GRACE).await, Ok(()));

        let tasks = Tasks::new();
        tasks.endless("the watch", async {});
        assert!(reason_of(tasks).await.contains("without being asked"));
    }

    #[tokio::test]
    async fn shutdown_waits_for_jobs_and_is_no_failure() {
        let tasks = Tasks::new();
        let token = tasks.shutdown().clone();
        tasks.service("server", async move {
            token.cancelled().await;
            Ok::<(), String>(())
        });
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let job = tasks.job(async move { wait.await.is_ok() });
        tasks.shutdown().cancel();
        let finished = tokio::spawn(tasks.finished(GRACE));
        tokio::task::yield_now().await;
        assert!(!finished.is_finished(), "the job has not ended yet");
        go.send(()).unwrap();
        assert!(job.await.unwrap());
        assert_eq!(finished.await.unwrap(), Ok(()));
    }
}
