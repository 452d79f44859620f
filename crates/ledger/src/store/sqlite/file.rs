//! Which file a path refers to: a connection stays with the file that it opened, even if another file takes its name.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct File {
    device: u64,
    inode: u64,
}

impl File {
    pub(super) fn at(path: &Path) -> Result<Self, StoreError> {
        let found = std::fs::metadata(path);
        let found = found.map_err(|source| StoreError::database("find", source))?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// Fails if the file has been replaced.
    pub(super) fn expect_at(self, path: &Path) -> Result<(), StoreError> {
        if Self::at(path)? == self {
            Ok(())
        } else {
            Err(StoreError::Replaced)
        }
    }
}
