//! Files in directories to which other users or programs can write.
//!
//! A name there says nothing about what is behind it. Opening a FIFO waits for its other end, a device
//! may never end, a link can point anywhere, and a sparse file of a tebibyte costs nothing to make. So only
//! regular files of a sensible size are read, and writes never go through an existing file or link.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Whether a symbolic link in place of the file is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// For directories where links are normal: the kubelet mounts Secrets and tokens that way.
    Follow,
    /// For directories where only this program creates files of that name.
    Refuse,
}

/// The whole file, if it is a regular one of at most `limit` bytes. Never waits for another process.
/// Blocks on the disk.
pub fn read(path: &Path, links: Links, limit: u64) -> io::Result<Vec<u8>> {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(refused("it is a symbolic link, not a regular file"));
        }
        opened => opened?,
    };
    // The metadata of the open file, not of the path, which may point elsewhere by now.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let too_large = || refused(&format!("it is larger than {limit} bytes"));
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // It may grow while it is read.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(content)
}

/// Like [`read`], for text.
pub fn read_text(path: &Path, links: Links, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, links, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Replaces the file at `path` atomically, by way of `draft` in the same directory. Anything that
/// already has either name is replaced, not written to. Blocks on the disk.
pub fn replace(path: &Path, draft: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Fails, instead of following a link or waiting, if another process has just created it.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)?;
    file.write_all(content)?;
    fs::rename(draft, path)
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::TempDir;

    use super::*;

    const LIMIT: u64 = 16;

    /// Much longer than any of these operations takes.
    const HANGS: Duration = Duration::from_secs(20);

    fn why_not(path: &Path, links: Links) -> String {
        let (tell, told) = mpsc::channel();
        let path = path.to_owned();
        std::thread::spawn(move || tell.send(read(&path, links, LIMIT)));
        let read = told.recv_timeout(HANGS).expect("it hangs");
        read.unwrap_err().to_string()
    }

    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "sixteen letters.").unwrap();
        assert_eq!(
            read(&at("file"), Links::Refuse, LIMIT).unwrap(),
            b"sixteen letters."
        );
        fs::write(at("large"), "seventeen letters").unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("fifo", at("link to a fifo")).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        for (name, reason) in [
            ("large", "it is larger than 16 bytes"),
            ("fifo", "it is not a regular file"),
            ("link to a fifo", "it is not a regular file"),
            ("device", "it is not a regular file"),
            ("directory", "it is not a regular file"),
        ] {
            assert_eq!(why_not(&at(name), Links::Follow), reason, "{name}");
        }
        assert!(why_not(&at("absent"), Links::Follow).contains("No such file"));
    }

    #[test]
    fn a_link_is_followed_only_where_links_are_usual() {
        let directory = TempDir::new().unwrap();
        let link = directory.path().join("link");
        fs::write(directory.path().join("file"), "text").unwrap();
        symlink("file", &link).unwrap();
        assert_eq!(read_text(&link, Links::Follow, LIMIT).unwrap(), "text");
        let refused = why_not(&link, Links::Refuse);
        assert_eq!(refused, "it is a symbolic link, not a regular file");
    }

    #[test]
    fn what_is_in_the_way_is_replaced_and_not_written_to() {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "untouched").unwrap();
        symlink(at("victim"), at("draft")).unwrap();
        symlink(at("victim"), at("file")).unwrap();
        replace(&at("file"), &at("draft"), b"text").unwrap();
        assert_eq!(
            read_text(&at("file"), Links::Refuse, LIMIT).unwrap(),
            "text"
        );
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
        assert!(!at("draft").exists());
    }
}
