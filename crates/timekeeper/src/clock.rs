//! What time it is, for everything that the timekeeper decides by time.
//!
//! One clock for the whole process, so that a test can move it. The clocks of the API server and of nodes may differ
//! from it and it may be set back: what is charged is decided by the times on the pods, and the ledger charges no
//! second twice, so a wrong clock only makes charges early (and reversed) or late.

use std::fmt;
#[cfg(any(test, feature = "movable-clock"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_ledger::Seconds;
use jiff::Timestamp;

/// Clones tell the same time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Seconds + Send + Sync>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

impl Clock {
    /// The clock of this machine.
    pub fn system() -> Self {
        Self::by(|| Timestamp::now().as_second())
    }

    /// A clock that the caller controls, for tests.
    pub fn by(now: impl Fn() -> Seconds + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    #[cfg(any(test, feature = "movable-clock"))]
    /// For tests of the program: the file is read at each look. It holds seconds to add to the machine's time, such
    /// as `+3600`, or a moment at which time stands still, such as `2026-11-16T09:00:00Z`.
    pub fn from_file(path: PathBuf) -> Self {
        Self::by(move || {
            let system = Timestamp::now().as_second();
            read(&path, system).unwrap_or_else(|problem| {
                tracing::warn!(file = %path.display(), problem, "using the machine's time");
                system
            })
        })
    }

    pub fn now(&self) -> Seconds {
        (self.0)()
    }
}

#[cfg(any(test, feature = "movable-clock"))]
fn read(path: &Path, system: Seconds) -> Result<Seconds, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.as_second());
    }
    let offset = text.parse::<Seconds>().ok();
    let moved = offset.and_then(|offset| system.checked_add(offset));
    moved.ok_or_else(|| format!("{text:?} is neither seconds to add nor a moment in RFC 3339"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_moves_the_clock_or_stops_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("now");
        let told = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file, 1_000)
        };
        assert_eq!(told("+3600\n"), Ok(4_600));
        assert_eq!(told("-10"), Ok(990));
        assert_eq!(told("1970-01-01T00:01:00Z"), Ok(60));
        for wrong in ["", "soon", "1.5", "9223372036854775807"] {
            assert!(told(wrong).is_err(), "{wrong}");
        }
        assert!(read(&directory.path().join("missing"), 0).is_err());
    }

    #[test]
    fn an_unreadable_file_leaves_the_machines_time() {
        let clock = Clock::from_file(PathBuf::from("/nonexistent/now"));
        assert!(clock.now() >= Timestamp::UNIX_EPOCH.as_second());
    }
}
