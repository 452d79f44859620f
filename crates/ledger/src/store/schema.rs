//! The versions of the database's schema, one numbered file each. A file that was released is never changed.

use super::StoreError;
use super::database::MissingAction;

/// The files of a database, from version 1 on.
pub(super) type Files = &'static [&'static str];

/// The files that are to be run on a database of version `found`, with the version that each leads to.
pub(super) fn missing(
    files: Files,
    found: i64,
) -> Result<impl Iterator<Item = (i64, &'static str)>, StoreError> {
    let known = i64::try_from(files.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    let numbered = (1..).zip(files.iter().copied());
    Ok(numbered.filter(move |(version, _)| *version > found))
}

/// Refuses a database without a ledger if none is to be created: an operator may be about to restore a copy.
pub(super) fn expect_ledger(found: i64, missing: MissingAction) -> Result<(), StoreError> {
    if found == 0 && missing == MissingAction::Refuse {
        let nothing = "there is no ledger in it: put a copy there, or restart the timekeeper to begin with an empty one";
        return Err(StoreError::Damaged(nothing.to_owned()));
    }
    Ok(())
}

/// Refuses a database that no longer has the schema version to which it was brought when it was opened.
pub(super) fn expect_current(files: Files, found: i64) -> Result<(), StoreError> {
    match missing(files, found)?.next() {
        None => Ok(()),
        Some((version, _)) => Err(StoreError::Damaged(format!(
            "its schema has version {found}, and the changes of version {version} are missing"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: Files = &["one", "two"];

    #[test]
    fn only_later_files_are_run_and_a_newer_database_is_refused() {
        let files = |found| missing(FILES, found).map(Vec::from_iter);
        assert_eq!(files(0).unwrap(), [(1, "one"), (2, "two")]);
        assert_eq!(files(1).unwrap(), [(2, "two")]);
        assert_eq!(files(2).unwrap(), []);
        let refusal = files(3).unwrap_err().to_string();
        assert!(
            refusal.contains("version 3") && refusal.contains("understands 2"),
            "{refusal}"
        );
    }

    #[test]
    fn a_database_that_fell_behind_is_damaged_and_one_that_went_ahead_is_newer() {
        assert!(expect_current(FILES, 2).is_ok());
        assert!(expect_current(FILES, 1).unwrap_err().is_damage());
        let newer = expect_current(FILES, 3).unwrap_err();
        assert!(matches!(newer, StoreError::Newer { .. }), "{newer}");
    }
}
