//! The file system of a guest, as a cpio archive that the kernel unpacks
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// What is in the archive so far. Whoever is root in the guest owns all of it.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    paths: BTreeSet<String>,
}

impl Archive {
    /// A file that everybody may read and execute, and the directories above it.
    pub(crate) fn program(&mut self, path: &str, contents: &[u8]) {
        self.parents(path);
        self.entry(path, FILE | 0o755, contents, [0, 0]);
    }

    /// A file that everybody may read.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) {
        self.parents(path);
        self.entry(path, FILE | 0o644, contents, [0, 0]);
    }

    pub(crate) fn directory(&mut self, path: &str) {
        self.parents(path);
        if !self.has(path) {
            self.entry(path, DIRECTORY | 0o755, &[], [0, 0]);
        }
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.entry(path, LINK | 0o777, target.as_bytes(), [0, 0]);
    }

    pub(crate) fn device(&mut self, path: &str, number: [u32; 2]) {
        self.parents(path);
        self.entry(path, CHARACTER_DEVICE | 0o600, &[], number);
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// All that is in this folder of the host, which becomes the root.
    pub(crate) fn tree(&mut self, root: &Path) {
        self.below(root, "");
    }

    fn below(&mut self, root: &Path, place: &str) {
        let entries = fs::read_dir(root).expect("a folder");
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().into_string().expect("text");
            let (path, host) = (format!("{place}/{name}"), entry.path());
            let data = entry.metadata().expect("an entry");
            if data.is_dir() {
                self.directory(&path);
                self.below(&host, &path);
            } else if data.is_symlink() {
                let target = fs::read_link(&host).expect("a link");
                self.link(&path, target.to_str().expect("text"));
            } else if data.permissions().mode() & 0o111 != 0 {
                self.program(&path, &fs::read(&host).expect("a file"));
            } else {
                self.file(&path, &fs::read(&host).expect("a file"));
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("/TRAILER!!!", 0, &[], [0, 0]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        match Path::new(path).parent().and_then(Path::to_str) {
            None | Some("/") => {}
            Some(parent) => self.directory(parent),
        }
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8], device: [u32; 2]) {
        let name = path.strip_prefix('/').expect("an absolute path");
        self.paths.insert(path.to_owned());
        let length = |bytes: usize| u32::try_from(bytes).expect("below 4 GiB");
        // The place in the archive is a number that no other entry has.
        let inode = length(self.bytes.len());
        let [major, minor] = device;
        let (size, name_size) = (length(contents.len()), length(name.len() + 1));
        self.bytes.extend(b"070701");
        for field in [
            inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
        ] {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        for part in [&[name.as_bytes(), b"\0"].concat(), contents] {
            self.bytes.extend(part);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
    }
}
