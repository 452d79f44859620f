//! An error with everything that led to it, in one line.

use std::error::Error;

/// The message and those of its causes. Some messages contain their cause already; it is not repeated.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let message = next.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    enum Failure {
        #[error("cannot listen: {0}")]
        Contains(#[source] io::Error),
        #[error("cannot listen")]
        Leaves(#[source] io::Error),
        #[error("the server does not start")]
        Outer(#[source] Box<Failure>),
    }

    #[test]
    fn every_cause_is_told_once() {
        let taken = || io::Error::other("address in use");
        let check = |failure: Failure, expected| assert_eq!(with_causes(&failure), expected);
        check(Failure::Contains(taken()), "cannot listen: address in use");
        check(Failure::Leaves(taken()), "cannot listen: address in use");
        check(
            Failure::Outer(Box::new(Failure::Contains(taken()))),
            "the server does not start: cannot listen: address in use",
        );
    }
}
