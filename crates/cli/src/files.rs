//! A file of the user's, changed so that nothing of it is lost.

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

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
}

/// Who may read a file that was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Only its user: it may come to hold secrets.
    Own,
    /// Whoever the system lets.
    Usual,
}

impl Kept {
    /// Reads a file, if it is there.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let path = followed(path)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text: Some(text) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path, text: None }),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let hint = "it is not UTF-8 text: save it as that, and try again";
                Err(format!("{}: {hint}", path.display()).into())
            }
            Err(error) => Err(named(&path, &error)),
        }
    }

    /// Writes the file as a whole, after a copy of what it was. Gives the copy's name.
    pub(crate) fn replace(&self, text: &str, readers: Readers) -> Result<Option<PathBuf>> {
        if Self::read(&self.path)?.text != self.text {
            let hint = "it was changed just now by somebody else: try again";
            return Err(format!("{}: {hint}", self.path.display()).into());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        let backup = match &self.text {
            Some(before) => Some(self.back_up(before)?),
            None => None,
        };
        self.write(folder, text, readers).map_err(|error| named(&self.path, &error))?;
        Ok(backup)
    }

    fn write(&self, folder: &Path, text: &str, readers: Readers) -> io::Result<()> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".zcp-");
        #[cfg(unix)]
        if readers == Readers::Usual {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        #[cfg(not(unix))]
        let _ = readers;
        let mut new = builder.tempfile_in(folder)?;
        new.write_all(text.as_bytes())?;
        if self.text.is_some() {
            self.hand_over(new.as_file())?;
        }
        new.as_file().sync_all()?;
        new.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Whose the file is, and who may read it, is true of another from now on.
    fn hand_over(&self, other: &File) -> io::Result<()> {
        let now = fs::metadata(&self.path)?;
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
                self.hand_over(&file)
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

/// What a link leads to, also if that is not there yet.
fn followed(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new(".")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(format!("{} is a link to itself", path.display()).into())
}

fn named(path: &Path, error: &io::Error) -> Box<dyn Error> {
    format!("{}: {error}", path.display()).into()
}
