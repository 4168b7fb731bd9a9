//! A directory that goes away with its owner.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A new directory that everyone may pass through; removed when dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        let template = CString::new("/tmp/oarbank-test-XXXXXX")
            .expect("no zero byte")
            .into_raw();
        // SAFETY: mkdtemp writes the name over the X of this string of ours, which is taken back
        // with its length unchanged.
        let made = unsafe {
            let made = !libc::mkdtemp(template).is_null();
            (made, CString::from_raw(template))
        };
        assert!(made.0, "mkdtemp: {}", std::io::Error::last_os_error());
        let path = PathBuf::from(made.1.into_string().expect("text"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.0).is_err() {
            // A test took a directory's mode away, which only root overlooks.
            let _ = Command::new("chmod")
                .args(["-R", "u+rwX"])
                .arg(&self.0)
                .status();
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
