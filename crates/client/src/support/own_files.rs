//! Files that are this user's own, and are never half-written.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Replaces a file in one step. Only its user can read it.
pub(crate) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let mut name = [0; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let new = folder.join(format!(".{:016x}.new", u64::from_ne_bytes(name)));
    let written = own(&new).and_then(|mut new| {
        new.write_all(text)?;
        new.sync_all()
    });
    written.and_then(|()| fs::rename(&new, file)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Opens a file of this user's own, made if it is not there.
pub(crate) fn own(file: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}

/// Makes a folder of this user's own, if it is not there.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
