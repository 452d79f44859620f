//! The container images of the rig, made by hand from one static busybox: nothing is pulled,
//! so pods say `imagePullPolicy: Never`.

use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::exec;
use crate::tar::Tar;

/// The image for test pods: a shell and the usual small tools.
///
/// `wget -T` crashes in Debian's static build; write `timeout 5 wget` instead.
pub const BUSYBOX: &str = "gpushare.test/busybox:1";

/// The image that holds a pod's namespaces.
pub(crate) const PAUSE: &str = "gpushare.test/pause:1";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An OCI archive with both images, which share their only layer.
pub(crate) fn archive(busybox: &[u8], applets: &[&str]) -> Result<Vec<u8>> {
    let mut layout = Layout::default();
    let layer = layer(busybox, applets)?;
    let diff_id = digest(&layer);
    let layer = layout.blob(LAYER, &layer)?;
    // The shell reaps what a pod with a shared process namespace leaves, and ends when told to.
    let pause = "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done";
    layout.image(BUSYBOX, &layer, &diff_id, &json!({"Cmd": ["sh"]}))?;
    let pause = json!({"Cmd": ["sh", "-c", pause]});
    layout.image(PAUSE, &layer, &diff_id, &pause)?;
    layout.finish()
}

/// An OCI archive with an image that runs a program of this machine. It holds the program and the libraries that the
/// program is linked with, and nothing else.
pub(crate) fn of_program(name: &str, program: &Path) -> Result<Vec<u8>> {
    let mut tar = Tar::default();
    let read = |path: &Path| {
        fs::read(path).with_context(|| format!("cannot read {} for an image", path.display()))
    };
    tar.file("program", 0o755, &read(program)?)?;
    let linked = exec::output(Command::new("ldd").arg(program))?;
    for library in linked.lines().filter_map(library) {
        let inside = library.trim_start_matches('/');
        tar.file(inside, 0o755, &read(Path::new(library))?)?;
    }
    let layer = tar.finish()?;
    let mut layout = Layout::default();
    let diff_id = digest(&layer);
    let layer = layout.blob(LAYER, &layer)?;
    layout.image(name, &layer, &diff_id, &json!({"Entrypoint": ["/program"]}))?;
    layout.finish()
}

/// The path in a line such as `libc.so.6 => /lib/libc.so.6 (0x7f)` or `/lib64/ld.so (0x7f)`.
fn library(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.starts_with('/'))
}

fn layer(busybox: &[u8], applets: &[&str]) -> Result<Vec<u8>> {
    let mut tar = Tar::default();
    for directory in [
        "bin/", "dev/", "etc/", "proc/", "root/", "run/", "sys/", "var/",
    ] {
        tar.directory(directory, 0o755)?;
    }
    tar.directory("tmp/", 0o1777)?;
    tar.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    tar.file("etc/group", 0o644, b"root:x:0:\n")?;
    tar.file("bin/busybox", 0o755, busybox)?;
    for applet in applets.iter().filter(|applet| **applet != "busybox") {
        tar.symlink(&format!("bin/{applet}"), "busybox")?;
    }
    tar.finish()
}

/// An OCI image layout under construction.
#[derive(Default)]
struct Layout {
    tar: Tar,
    manifests: Vec<Value>,
}

impl Layout {
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = digest(bytes);
        let path = format!("blobs/{}", digest.replace(':', "/"));
        self.tar.file(&path, 0o644, bytes)?;
        Ok(json!({"mediaType": media_type, "digest": digest, "size": bytes.len()}))
    }

    /// `runs` is the part of the configuration that says what is run.
    fn image(&mut self, name: &str, layer: &Value, diff_id: &str, runs: &Value) -> Result<()> {
        let architecture = match ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let mut start = json!({"Env": ["PATH=/bin"], "WorkingDir": "/"});
        if let (Some(start), Some(runs)) = (start.as_object_mut(), runs.as_object()) {
            start.extend(runs.clone());
        }
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": start,
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        });
        let config_type = "application/vnd.oci.image.config.v1+json";
        let config = self.blob(config_type, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let mut manifest = self.blob(MANIFEST, manifest.to_string().as_bytes())?;
        if let Some(descriptor) = manifest.as_object_mut() {
            descriptor.insert(
                "annotations".into(),
                json!({"io.containerd.image.name": name}),
            );
        }
        self.manifests.push(manifest);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        let index = json!({"schemaVersion": 2, "manifests": self.manifests});
        self.tar
            .file("index.json", 0o644, index.to_string().as_bytes())?;
        self.tar
            .file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        self.tar.finish()
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::from("sha256:"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn libraries_are_found_in_whatever_the_linker_says_of_them() {
        for (line, expected) in [
            ("\tlinux-vdso.so.1 (0x00007f)", None),
            (
                "\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)",
                Some("/lib/x/libc.so.6"),
            ),
            (
                "\t/lib64/ld-linux-x86-64.so.2 (0x00007f)",
                Some("/lib64/ld-linux-x86-64.so.2"),
            ),
            ("\tstatically linked", None),
        ] {
            assert_eq!(library(line), expected);
        }
    }

    #[test]
    fn the_archive_names_both_images_and_every_blob_has_its_digest_as_name() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = archive(b"static program", &["busybox", "sh", "env"]).unwrap();
        fs::write(dir.path().join("images.tar"), bytes).unwrap();
        let unpacked = Command::new("tar")
            .args(["xf", "images.tar"])
            .current_dir(dir.path())
            .status();
        assert!(unpacked.unwrap().success());
        let index = fs::read_to_string(dir.path().join("index.json")).unwrap();
        assert!(index.contains(BUSYBOX) && index.contains(PAUSE), "{index}");
        for blob in fs::read_dir(dir.path().join("blobs/sha256")).unwrap() {
            let blob = blob.unwrap().path();
            let name = blob.file_name().unwrap().to_str().unwrap();
            assert_eq!(digest(&fs::read(&blob).unwrap()), format!("sha256:{name}"));
        }
    }
}
