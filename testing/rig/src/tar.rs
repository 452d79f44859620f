//! A tar archive in memory, with fixed owners and times so that the same content gives the same bytes.

use anyhow::Result;
use tar::{Builder, EntryType, Header};

/// An archive that grows by entries.
pub(crate) struct Tar(Builder<Vec<u8>>);

impl Default for Tar {
    fn default() -> Self {
        Self(Builder::new(Vec::new()))
    }
}

impl Tar {
    pub(crate) fn directory(&mut self, path: &str, mode: u32) -> Result<()> {
        let mut header = header(EntryType::Directory, mode, 0);
        Ok(self.0.append_data(&mut header, path, [].as_slice())?)
    }

    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = header(EntryType::Regular, mode, content.len() as u64);
        Ok(self.0.append_data(&mut header, path, content)?)
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        let mut header = header(EntryType::Symlink, 0o777, 0);
        Ok(self.0.append_link(&mut header, path, target)?)
    }

    /// The archive with its end marker.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.0.into_inner()?)
    }
}

/// A header without a time; the owner is root.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_system_tar_unpacks_what_we_wrote_and_the_same_content_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let long = "p".repeat(200);
        let archive = || {
            let mut tar = Tar::default();
            tar.directory("bin/", 0o755).unwrap();
            tar.file("bin/tool", 0o755, &[b'x'; 700]).unwrap();
            tar.symlink("bin/alias", "tool").unwrap();
            tar.file(&long, 0o644, b"long").unwrap();
            tar.finish().unwrap()
        };
        fs::write(dir.path().join("a.tar"), archive()).unwrap();
        assert_eq!(archive(), archive());
        let unpacked = Command::new("tar")
            .args(["xf", "a.tar"])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(unpacked.success());
        let tool = dir.path().join("bin/tool");
        assert_eq!(fs::read(dir.path().join("bin/alias")).unwrap(), [b'x'; 700]);
        assert_eq!(fs::read(dir.path().join(long)).unwrap(), b"long");
        assert_eq!(
            fs::metadata(tool).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }
}
