//! A tar archive in memory: as much of the ustar format as an image layer needs, with fixed
//! owners and times so that the same content gives the same bytes.

use anyhow::{Context, Result, ensure};

const BLOCK: usize = 512;

/// An archive that grows by entries.
#[derive(Debug, Default)]
pub(crate) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    pub(crate) fn directory(&mut self, path: &str, mode: u32) -> Result<()> {
        self.entry(path, mode, b'5', "", &[])
    }

    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(path, mode, b'0', "", content)
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        self.entry(path, 0o777, b'2', target, &[])
    }

    /// The archive with its end marker.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, kind: u8, link: &str, content: &[u8]) -> Result<()> {
        let mut header = Header([0; BLOCK]);
        header
            .put(0, 100, path.as_bytes())
            .context("the path is too long for tar")?;
        header.octal(100, 8, u64::from(mode))?;
        header.octal(108, 8, 0)?;
        header.octal(116, 8, 0)?;
        header.octal(124, 12, content.len().try_into()?)?;
        header.octal(136, 12, 0)?;
        header.put(156, 1, &[kind])?;
        header
            .put(157, 100, link.as_bytes())
            .context("the link is too long for tar")?;
        header.put(257, 8, b"ustar\x0000")?;
        // The checksum counts its own field as spaces.
        header.put(148, 8, b"        ")?;
        let sum: u64 = header.0.iter().map(|byte| u64::from(*byte)).sum();
        header.octal(148, 7, sum)?;
        self.bytes.extend(header.0);
        self.bytes.extend(content);
        let rest = content.len() % BLOCK;
        if rest > 0 {
            self.bytes.extend(vec![0; BLOCK - rest]);
        }
        Ok(())
    }
}

struct Header([u8; BLOCK]);

impl Header {
    fn put(&mut self, at: usize, size: usize, value: &[u8]) -> Result<()> {
        ensure!(
            value.len() <= size,
            "{} bytes do not fit into {size}",
            value.len()
        );
        let field = self
            .0
            .get_mut(at..at + value.len())
            .context("outside of the header")?;
        field.copy_from_slice(value);
        Ok(())
    }

    fn octal(&mut self, at: usize, size: usize, value: u64) -> Result<()> {
        self.put(
            at,
            size,
            format!("{value:0width$o}\0", width = size - 1).as_bytes(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_system_tar_unpacks_what_we_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = Tar::default();
        tar.directory("bin/", 0o755).unwrap();
        tar.file("bin/tool", 0o755, &[b'x'; 700]).unwrap();
        tar.symlink("bin/alias", "tool").unwrap();
        fs::write(dir.path().join("a.tar"), tar.finish()).unwrap();
        let unpacked = Command::new("tar")
            .args(["xf", "a.tar"])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert!(unpacked.success());
        let tool = dir.path().join("bin/tool");
        assert_eq!(fs::read(dir.path().join("bin/alias")).unwrap(), [b'x'; 700]);
        assert_eq!(
            fs::metadata(tool).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn a_path_longer_than_the_format_allows_is_refused() {
        assert!(Tar::default().file(&"p".repeat(101), 0o644, b"").is_err());
    }
}
