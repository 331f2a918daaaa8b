//! A folder of a test's own.

use std::path::PathBuf;

/// A folder that nobody else uses, gone when this is dropped.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes one. Tests of one process give it different names.
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("zcp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("it can be made");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
