//! The versions of the database's schema, one numbered file each. A file that was released is never changed.

use super::StoreError;

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
}
