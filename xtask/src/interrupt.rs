//! Handles Ctrl-C while a program runs that has to clean up before it ends.

use std::process::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code that shells use for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Another program handles Ctrl-C now.
static LEFT_TO_OTHERS: AtomicBool = AtomicBool::new(false);
static HEARD: AtomicBool = AtomicBool::new(false);

/// Waits for a program that also receives Ctrl-C and cleans up before it ends, so that the prompt returns only after
/// that. If Ctrl-C was pressed, this process then exits as Ctrl-C would have ended it, and starts nothing more.
pub(crate) fn left_to<T>(program: impl FnOnce() -> Result<T>) -> Result<T> {
    listen()?;
    LEFT_TO_OTHERS.store(true, Ordering::SeqCst);
    let done = program();
    LEFT_TO_OTHERS.store(false, Ordering::SeqCst);
    if HEARD.load(Ordering::SeqCst) {
        eprintln!("interrupted");
        exit(INTERRUPTED);
    }
    done
}

/// Receives Ctrl-C from now on, and exits on it unless another program handles it.
fn listen() -> Result<()> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    if LISTENING.get().is_some() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let (ready, listening) = channel();
    thread::spawn(move || {
        runtime.block_on(async {
            let mut interrupts = match signal(SignalKind::interrupt()) {
                Ok(interrupts) => interrupts,
                Err(error) => return ready.send(Err(error)),
            };
            ready.send(Ok(()))?;
            while interrupts.recv().await.is_some() {
                if !LEFT_TO_OTHERS.load(Ordering::SeqCst) {
                    exit(INTERRUPTED);
                }
                HEARD.store(true, Ordering::SeqCst);
            }
            Ok(())
        })
    });
    listening.recv()?.context("cannot listen for Ctrl-C")?;
    LISTENING.get_or_init(|| ());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn ctrl_c_does_not_end_us_while_it_is_left_to_a_program() {
        let heard = left_to(|| {
            kill_process(getpid(), Signal::INT)?;
            for _ in 0..6_000 {
                if HEARD.load(Ordering::SeqCst) {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
            // Without the reset, `left_to` would end this process now.
            Ok(HEARD.swap(false, Ordering::SeqCst))
        });
        assert!(heard.unwrap());
    }
}
