//! Ctrl-C ends a campaign between two steps, so that the cluster and its files are removed as after a success.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C only sets a flag. A second Ctrl-C ends the program.
pub fn watch() {
    static WATCHING: OnceLock<()> = OnceLock::new();
    WATCHING.get_or_init(|| {
        thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                tokio::signal::ctrl_c().await.expect("signals are heard");
                eprintln!("interrupted: taking the cluster down (Ctrl-C again to leave at once)");
                INTERRUPTED.store(true, Ordering::Relaxed);
                tokio::signal::ctrl_c().await.expect("signals are heard");
                std::process::exit(130);
            });
        });
    });
}

/// Panics if Ctrl-C was pressed after [`watch`], so that everything is dropped in order.
pub fn check() {
    assert!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted");
}
