//! Which errors of the server are temporary, and which an operator has to repair.

use std::error::Error;

use tokio_postgres::error::SqlState;

use crate::store::{Fault, StoreError};

pub(super) fn failed(doing: &'static str, source: tokio_postgres::Error) -> StoreError {
    let fault = match source.code() {
        Some(code) => fault(code),
        // The database did not answer: the connection failed.
        None if source.is_closed()
            || source
                .source()
                .is_some_and(<dyn Error>::is::<std::io::Error>) =>
        {
            Fault::Passing
        }
        None => Fault::Other,
    };
    StoreError::Database {
        doing,
        fault,
        source: Box::new(source),
    }
}

fn fault(code: &SqlState) -> Fault {
    // Other transactions got in the way.
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    // The server reports corruption, or something that our statements name is missing.
    let damage = [
        SqlState::DATA_CORRUPTED,
        SqlState::INDEX_CORRUPTED,
        SqlState::UNDEFINED_FILE,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
    ];
    // The connection broke, or the server is restarting.
    let connection = |code: &str| code.starts_with("08") || code.starts_with("57P");
    match code {
        code if conflicts.contains(code) || connection(code.code()) => Fault::Passing,
        code if damage.contains(code) => Fault::Damage,
        _ => Fault::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_somebody_has_to_repair() {
        for (code, expected) in [
            ("40001", Fault::Passing),
            ("08006", Fault::Passing),
            ("57P03", Fault::Passing),
            ("XX001", Fault::Damage),
            ("XX002", Fault::Damage),
            ("58P01", Fault::Damage),
            ("42P01", Fault::Damage),
            ("42703", Fault::Damage),
            ("53100", Fault::Other),
            ("42501", Fault::Other),
        ] {
            assert_eq!(fault(&SqlState::from_code(code)), expected, "{code}");
        }
    }
}
