//! A bundle as bytes: a ZIP that is the same whenever its content is.

use super::files::Files;
use crate::client_config::user_files::{self, Over, Readers};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

/// Where the scripts are in a bundle.
pub(super) const PROJECT: &str = "server/project";

/// Something in a bundle.
pub(super) enum Part {
    Text(String),
    /// A file as it is; or with a mode of its own.
    File(PathBuf, Option<u32>),
    Folder,
}

/// What is in a bundle, by its place.
pub(super) type Parts = BTreeMap<String, Part>;

/// The files of the folder, at their places.
pub(super) fn project(files: &Files) -> Parts {
    let place = |name: &str| format!("{PROJECT}/{name}");
    let part = |is_folder: bool, path: &Path| match is_folder {
        true => Part::Folder,
        false => Part::File(path.to_owned(), None),
    };
    files.kept.iter().map(|one| (place(&one.name), part(one.is_folder, &one.path))).collect()
}

/// Writes a bundle, whole or not at all: its size.
pub(super) fn write(file: &Path, parts: &Parts) -> io::Result<u64> {
    user_files::whole(file, Readers::Usual, Over::Anything, |file| {
        let mut zip = ZipWriter::new(io::BufWriter::new(file));
        for (name, part) in parts {
            let wrong = |error| io::Error::other(format!("{name}: {error}"));
            add(&mut zip, name, part).map_err(wrong)?;
        }
        zip.finish().map_err(io::Error::other)?.flush()
    })?;
    Ok(fs::metadata(file)?.len())
}

fn add<W: Write + Seek>(zip: &mut ZipWriter<W>, name: &str, part: &Part) -> io::Result<()> {
    // Times would make two bundles of one folder different.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    match part {
        Part::Folder => {
            zip.add_directory(name, options.unix_permissions(0o755)).map_err(io::Error::other)
        }
        Part::Text(text) => {
            let options = options.unix_permissions(0o644);
            zip.start_file(name, options).map_err(io::Error::other)?;
            zip.write_all(text.as_bytes())
        }
        Part::File(path, own) => {
            let mut file = fs::File::open(path)?;
            let about = file.metadata()?;
            let options = options
                .unix_permissions(own.unwrap_or_else(|| mode(&about)))
                .large_file(about.len() > u64::from(u32::MAX / 2));
            zip.start_file(name, options).map_err(io::Error::other)?;
            io::copy(&mut file, zip).map(drop)
        }
    }
}

#[cfg(unix)]
fn mode(about: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
}

/// Where files have no modes, any of them may be a script.
#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> u32 {
    0o755
}

/// The system a program is for, by its first bytes.
pub(super) fn system_of(program: &Path) -> io::Result<Option<&'static str>> {
    let mut first = vec![];
    fs::File::open(program)?.take(4).read_to_end(&mut first)?;
    Ok(match first.as_slice() {
        [0x7f, b'E', b'L', b'F'] => Some("linux"),
        [b'M', b'Z', ..] => Some("win32"),
        [0xfe, 0xed, 0xfa, 0xce | 0xcf]
        | [0xce | 0xcf, 0xfa, 0xed, 0xfe]
        | [0xca, 0xfe, 0xba, 0xbe] => Some("darwin"),
        _ => None,
    })
}
