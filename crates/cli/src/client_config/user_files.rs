//! A file of the user's, changed so that nothing of it is lost.

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Component, Path, PathBuf},
    time::SystemTime,
};
use tempfile::NamedTempFile;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Links that are followed before it must be a circle.
const LINKS: usize = 40;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The file itself, where a link was named.
    pub(crate) path: PathBuf,
    /// What it says; nothing if it is not there.
    pub(crate) text: Option<String>,
    turn: Option<Turn>,
}

/// Who may read a file that was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Only its user: it may come to hold secrets.
    Own,
    /// Whoever the system lets.
    Usual,
}

/// What a new file may take the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Anything,
    Nothing,
}

impl Kept {
    /// Reads a file, if it is there.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let path = followed(path)?;
        let text = text_of(&path)?;
        Ok(Self { path, text, turn: None })
    }

    /// Reads a file, and keeps every other zcp from changing it meanwhile.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let path = followed(path)?;
        let turn = Turn::wait(folder_of(&path));
        let text = text_of(&path)?;
        Ok(Self { path, text, turn })
    }

    /// Whether it is in a folder, or would be.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        let mut above = self.path.ancestors().skip(1);
        let there = above.find_map(|above| Some((above, above.canonicalize().ok()?)));
        let Some((above, whole)) = there else { return false };
        let rest = self.path.strip_prefix(above).unwrap_or(&self.path);
        let is_below = folder.canonicalize().is_ok_and(|folder| whole.starts_with(folder));
        is_below && rest.components().all(|one| one != Component::ParentDir)
    }

    /// Writes the file as a whole, after a copy of what it was. Gives the copy's name.
    pub(crate) fn replace(&self, text: &str, readers: Readers) -> Result<Option<PathBuf>> {
        let _turn = self.begin()?;
        self.check()?;
        let backup = self.text.as_deref().map(|before| self.back_up(before)).transpose()?;
        self.put(text, readers)?;
        Ok(backup)
    }

    /// Writes the file as a whole, where what it was is still in it.
    pub(crate) fn extend(&self, text: &str, readers: Readers) -> Result<()> {
        let _turn = self.begin()?;
        self.put(text, readers)
    }

    fn begin(&self) -> Result<Option<Turn>> {
        let folder = folder_of(&self.path);
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        Ok(if self.turn.is_some() { None } else { Turn::wait(folder) })
    }

    fn put(&self, text: &str, readers: Readers) -> Result<()> {
        let over = if self.text.is_some() { Over::Anything } else { Over::Nothing };
        let new = prepared(&self.path, readers, |file| file.write_all(text.as_bytes()));
        let new = new.map_err(|error| named(&self.path, &error))?;
        self.check()?;
        placed(new, &self.path, over).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => self.changed(),
            _ => named(&self.path, &error),
        })
    }

    /// Whether it still says what it said.
    fn check(&self) -> Result<()> {
        if text_of(&self.path)? == self.text { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Box<dyn Error> {
        let hint = "it was changed just now by somebody else: try again";
        format!("{}: {hint}", self.path.display()).into()
    }

    /// A copy beside it, which those may read who may read the file.
    fn back_up(&self, text: &str) -> Result<PathBuf> {
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let time: String = time.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        for number in 1.. {
            let more = if number == 1 { String::new() } else { format!("-{number}") };
            let path = self.path.with_file_name(format!("{name}.bak-{time}{more}"));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let written = options.open(&path).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                hand_over(&fs::metadata(&self.path)?, &file)
            });
            match written {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(named(&path, &error)),
            }
        }
        Err("there are too many copies".into())
    }
}

/// The right to change files of a folder, which one zcp has at a time. Where folders cannot be
/// locked there is none, and what was changed meanwhile is only noticed.
#[derive(Debug)]
struct Turn(#[expect(dead_code, reason = "it is given back when it is closed")] File);

impl Turn {
    fn wait(folder: &Path) -> Option<Self> {
        let folder = File::open(folder).ok()?;
        folder.lock().ok()?;
        Some(Self(folder))
    }
}

/// Writes a file whole or not at all. Whose it is and who may read it stays.
pub(crate) fn whole(
    path: &Path,
    readers: Readers,
    over: Over,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    placed(prepared(path, readers, write)?, path, over)
}

/// What a file is to be, beside it.
fn prepared(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zcp-");
    #[cfg(unix)]
    if readers == Readers::Usual {
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut new = builder.tempfile_in(folder_of(path))?;
    write(new.as_file_mut())?;
    if let Ok(now) = fs::metadata(path) {
        hand_over(&now, new.as_file())?;
    }
    new.as_file().sync_all()?;
    Ok(new)
}

fn placed(new: NamedTempFile, path: &Path, over: Over) -> io::Result<()> {
    let placed = match over {
        Over::Anything => new.persist(path),
        Over::Nothing => new.persist_noclobber(path),
    };
    placed.map(drop).map_err(|error| error.error)
}

/// Whose a file is, and who may read it, is true of another from now on.
fn hand_over(now: &fs::Metadata, other: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let made = other.metadata()?;
        if (made.uid(), made.gid()) != (now.uid(), now.gid()) {
            // Only an administrator can, and then it matters.
            let _ = fchown(other, Some(now.uid()), Some(now.gid()));
        }
    }
    other.set_permissions(now.permissions())
}

/// The folder a file is in, also where only its name is said.
pub(crate) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a file says, if it is there.
fn text_of(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let hint = "it is not UTF-8 text: save it as that, and try again";
            Err(format!("{}: {hint}", path.display()).into())
        }
        Err(error) => Err(named(path, &error)),
    }
}

/// What a link leads to, also if that is not there yet.
fn followed(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(format!("{} is a link to itself", path.display()).into())
}

fn named(path: &Path, error: &io::Error) -> Box<dyn Error> {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_wrote_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let kept = Kept::read(&file).unwrap();
        let new = prepared(&file, Readers::Own, |file| file.write_all(b"ours")).unwrap();
        fs::write(&file, "theirs").unwrap();
        assert!(placed(new, &file, Over::Nothing).is_err());
        for written in
            [kept.replace("ours", Readers::Own).map(drop), kept.extend("ours", Readers::Own)]
        {
            assert!(written.unwrap_err().to_string().contains("try again"));
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something is left over");
    }

    #[cfg(unix)]
    #[test]
    fn who_may_read_a_file_stays() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        let write = |text: &'static [u8], over| {
            whole(&file, Readers::Usual, over, |file| file.write_all(text))
        };
        write(b"one", Over::Nothing).unwrap();
        assert_eq!(mode() & 0o600, 0o600);
        assert!(write(b"two", Over::Nothing).is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        write(b"three", Over::Anything).unwrap();
        assert_eq!((mode(), fs::read_to_string(&file).unwrap().as_str()), (0o640, "three"));
        let failed = |_: &mut File| Err(io::Error::other("no"));
        assert!(whole(&file, Readers::Usual, Over::Anything, failed).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something is left over");
        assert_eq!(folder_of(Path::new("a")), Path::new("."));
    }

    #[cfg(unix)]
    #[test]
    fn one_at_a_time_changes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let other = File::open(folder.path()).unwrap();
        let kept = Kept::take(&file).unwrap();
        assert!(other.try_lock().is_err());
        kept.replace("ours", Readers::Own).unwrap();
        assert!(other.try_lock().is_err());
        drop(kept);
        other.try_lock().unwrap();
    }
}
