//! The files of audit logs: lines are appended whole, and a log that is full begins anew.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// How large a log grows before it begins anew. The one before is kept.
pub(crate) const LARGEST: u64 = 64 * 1024 * 1024;

/// One line, whole: others may append to the same file.
pub(crate) fn write(path: &Path, line: &[u8], largest: u64) -> io::Result<()> {
    let length = fs::metadata(path).map_or(0, |about| about.len());
    if length > 0 && length + line.len() as u64 > largest {
        let mut older = path.to_path_buf().into_os_string();
        older.push(".1");
        fs::rename(path, older)?;
    }
    let mut file = open(path)?;
    let before = file.metadata()?.len();
    file.write_all(line).inspect_err(|_| {
        // Half a line is no line.
        let _ = file.set_len(before);
    })
}

pub(crate) fn open(path: &Path) -> io::Result<fs::File> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_full_begins_anew_and_the_last_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/audit.jsonl");
        for line in ["one\n", "two\n", "three\n"] {
            write(&path, line.as_bytes(), 10).expect("it is written");
        }
        assert_eq!(fs::read_to_string(&path).expect("a log"), "three\n");
        assert_eq!(
            fs::read_to_string(folder.path().join("logs/audit.jsonl.1")).expect("a log"),
            "one\ntwo\n"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a log").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
