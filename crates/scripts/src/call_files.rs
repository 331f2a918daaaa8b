//! The folder of a call that its script may write: files in it are opened by descriptor and never
//! through a link, so that no script has the server read or write anything else.

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, renameat, unlinkat},
    io::Errno,
};
use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// How files are opened that others may have made: a FIFO does not block, a link is refused.
const CAREFUL: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// How a folder is opened: not through a link.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How long it may take to remove a folder: a process may still fill it.
const LONGEST: Duration = Duration::from_secs(60);

/// A private folder. Dropping this removes it, on a thread that may block.
#[derive(Debug)]
pub(crate) struct CallFolder(PathBuf);

impl CallFolder {
    /// Makes one in a folder.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("call-").tempdir_in(parent)?.keep()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for CallFolder {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        let remove = move || {
            if let Err(error) = remove(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!("a folder of a call stays until the server ends: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

/// Removes a folder and all that is in it, however deep: what is in a folder of it is moved up, so
/// that this needs neither a stack nor descriptors for its depth. No link is followed, and another
/// may remove it at the same time. Its owner may remove folders that nobody may write.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    let (root, begun) = (open(folder, FOLDER, Mode::empty())?, Instant::now());
    let (mark, mut count) = (zcp::random_name(), 0_u64);
    loop {
        let mut is_empty = true;
        for entry in Dir::read_from(&root)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) || remove_one(&root, name) {
                continue;
            }
            is_empty = false;
            match open_own(&root, name) {
                Ok(inner) => empty(&inner, &root, || {
                    count += 1;
                    format!("{mark}{count}")
                })?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                Err(error) => return Err(error),
            }
            remove_one(&root, name);
            if begun.elapsed() > LONGEST {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        if is_empty {
            return std::fs::remove_dir(folder);
        }
    }
}

/// Empties a folder: its files are removed, and its folders get new names in another.
fn empty(folder: &OwnedFd, to: &OwnedFd, mut new: impl FnMut() -> String) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dot(name) || remove_one(folder, name) {
            continue;
        }
        let new = new();
        let mut moved = renameat(folder, name, to, &new);
        if moved == Err(Errno::ACCESS) {
            // To move a folder changes it, too.
            drop(open_own(folder, name)?);
            moved = renameat(folder, name, to, &new);
        }
        match moved {
            Ok(()) | Err(Errno::NOENT) => (),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens a folder that is to be emptied: its owner may do everything in it from now on.
#[cfg(target_os = "linux")]
fn open_own(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    // Without the right to read it a folder can only be found, and changed where it was found.
    let found = openat(parent, name, FOLDER.union(OFlags::PATH), Mode::empty())?;
    let place = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmod(place, Mode::RWXU)?;
    Ok(openat(parent, name, FOLDER, Mode::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn open_own(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let inner = openat(parent, name, FOLDER, Mode::empty())?;
    rustix::fs::fchmod(&inner, Mode::RWXU)?;
    Ok(inner)
}

/// Removes a file or an empty folder. Says whether it is gone.
fn remove_one(folder: &OwnedFd, name: &CStr) -> bool {
    let gone = |flags| matches!(unlinkat(folder, name, flags), Ok(()) | Err(Errno::NOENT));
    gone(AtFlags::empty()) || gone(AtFlags::REMOVEDIR)
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// The folder, whatever becomes of its path.
#[derive(Debug, Clone)]
pub(crate) struct CallFiles(Arc<OwnedFd>);

impl CallFiles {
    /// Opens a folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(open(folder, FOLDER, Mode::empty())?)))
    }

    /// How a file begins, up to a number of bytes. It blocks only as long as a disk does.
    fn read_now(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = regular(openat(&*self.0, name, OFlags::RDONLY | CAREFUL, Mode::empty())?)?;
        // A second name may be that of a file which the script may not read itself.
        if fstat(&file)?.st_nlink > 1 {
            return Err(Errno::MLINK.into());
        }
        let mut bytes = vec![];
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Puts a file there, whole at once, in place of whatever has its name.
    fn write_now(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!(".{}", zcp::random_name());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | CAREFUL;
        let file = openat(&*self.0, new.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file)
            .write_all(bytes)
            .and_then(|()| Ok(renameat(&*self.0, new.as_str(), &*self.0, name)?));
        if written.is_err() {
            let _ = unlinkat(&*self.0, new.as_str(), AtFlags::empty());
        }
        written
    }

    /// How a file begins; nothing if it is not there, or no regular file.
    pub(crate) async fn read(&self, name: &'static str, most: u64) -> Option<Vec<u8>> {
        let files = self.clone();
        tokio::task::spawn_blocking(move || files.read_now(name, most)).await.ok()?.ok()
    }

    /// Takes a file away once `whole` says that all of it is there: what that makes of it.
    pub(crate) async fn take<T: Send + 'static>(
        &self,
        name: &'static str,
        most: u64,
        whole: impl FnOnce(Vec<u8>) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let files = self.clone();
        let taken = tokio::task::spawn_blocking(move || {
            let taken = whole(files.read_now(name, most).ok()?)?;
            let _ = unlinkat(&*files.0, name, AtFlags::empty());
            Some(taken)
        });
        taken.await.ok()?
    }

    /// Puts files there, each whole at once, in place of whatever has their names.
    pub(crate) async fn write(&self, all: Vec<(&'static str, Vec<u8>)>) -> io::Result<()> {
        let files = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            all.iter().try_for_each(|(name, bytes)| files.write_now(name, bytes))
        });
        written.await.map_err(io::Error::other)?
    }
}

/// A file for reading, wherever its path leads, if it is a regular one: what waits for a writer or
/// has no end is refused and not waited for.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::RDONLY | CAREFUL).difference(OFlags::NOFOLLOW);
    regular(open(path, flags, Mode::empty())?)
}

/// The same file for reading, once its path is known to lead to one that may be read. Nothing is
/// opened before `may_be` was asked where it really is: to open a device or a file of the kernel may
/// have effects.
#[cfg(target_os = "linux")]
pub(crate) fn open_where(path: &Path, may_be: impl Fn(&Path) -> bool) -> io::Result<Option<File>> {
    use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
    use std::os::fd::AsRawFd;
    let found = regular(open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)?;
    let place = format!("/proc/self/fd/{}", found.as_raw_fd());
    let real = std::fs::read_link(&place)?;
    let is_kernel = is_of_kernel(&real) || fstatfs(&found)?.f_type == PROC_SUPER_MAGIC;
    match !is_kernel && may_be(&real) {
        true => open_regular(Path::new(&place)).map(Some),
        false => Ok(None),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_where(path: &Path, may_be: impl Fn(&Path) -> bool) -> io::Result<Option<File>> {
    let real = path.canonicalize()?;
    match !is_of_kernel(&real) && may_be(&real) {
        true => open_regular(&real).map(Some),
        false => Ok(None),
    }
}

/// Whether a real path is one of the kernel's: what is read there depends on who reads, and the
/// server would tell of itself. Shared memory is a folder like others.
fn is_of_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder))
        && !path.starts_with("/dev/shm")
}

/// How much of a file is read to know it.
pub(crate) const HEAD: u64 = 8 * 1024;

/// How a file begins.
pub(crate) fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    open_regular(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// All bytes of a regular file of at most `largest`.
pub(crate) fn read_regular(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    whole(open_regular(path)?, largest)
}

/// The same as text.
pub(crate) fn read_text(path: &Path, largest: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, largest)?).map_err(|_| not_text())
}

/// The bytes of a regular file that is in one of some folders, wherever links on its path lead.
pub(crate) fn read_inside(path: &Path, largest: u64, folders: &[PathBuf]) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let real = real_path(&file, path)?;
    let mut folders = folders.iter().filter_map(|folder| folder.canonicalize().ok());
    match folders.any(|folder| real.starts_with(folder)) {
        true => whole(file, largest),
        false => Err(io::Error::other("it leads out of the project, and is not read")),
    }
}

/// The same as text.
pub(crate) fn text_inside(path: &Path, largest: u64, folders: &[PathBuf]) -> io::Result<String> {
    String::from_utf8(read_inside(path, largest, folders)?).map_err(|_| not_text())
}

fn not_text() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")
}

fn whole(file: File, largest: u64) -> io::Result<Vec<u8>> {
    let too_large = |length| {
        let why = format!("it has {length} bytes, and may have {largest}");
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    let length = file.metadata()?.len();
    if length > largest {
        return Err(too_large(length));
    }
    let mut bytes = vec![];
    // It may have grown since, or be of a kind that does not tell its length.
    let took = file.take(largest.saturating_add(1)).read_to_end(&mut bytes)? as u64;
    if took > largest { Err(too_large(took)) } else { Ok(bytes) }
}

/// Where an open file is, wherever its path leads by now.
fn real_path(file: &File, path: &Path) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let _ = path;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        path.canonicalize()
    }
}

fn regular(file: OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(io::Error::other("it is no file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_deep_folder_is_removed_and_links_are_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("stays"), "stays").unwrap();
        let own = CallFolder::new(folder.path()).unwrap();
        let mut deepest = open(own.path(), FOLDER, Mode::empty()).unwrap();
        for depth in 0..5000 {
            rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            if depth % 100 == 0 {
                rustix::fs::mkdirat(&deepest, "beside", Mode::RWXU).unwrap();
                rustix::fs::symlinkat(outside.path(), &deepest, "link").unwrap();
            }
            deepest = openat(&deepest, "d", FOLDER, Mode::empty()).unwrap();
        }
        let path = own.path().to_path_buf();
        // A stack that a recursion of this depth does not fit in.
        let small = std::thread::Builder::new().stack_size(256 * 1024);
        small.spawn(move || drop(own)).unwrap().join().unwrap();
        assert!(!path.exists());
        assert!(outside.path().join("stays").exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn folders_that_nobody_may_write_are_removed_by_their_owner() {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let folder = tempfile::tempdir().unwrap();
        let own = CallFolder::new(folder.path()).unwrap();
        let inner = own.path().join("a/b/c");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("kept"), "kept").unwrap();
        for (path, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o555), ("", 0o500)] {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(own.path().join(path), mode).unwrap();
        }
        let path = own.path().to_path_buf();
        let removed = std::thread::spawn(move || {
            // Not even root removes what is in such a folder without these.
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, none).unwrap();
            assert!(fs::read_dir(own.path().join("a/b/c")).is_err());
            drop(own);
        });
        removed.join().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn links_and_fifos_are_neither_read_nor_written() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let files = CallFiles::open(folder.path()).unwrap();
        let there = |name: &str| folder.path().join(name);

        symlink(&secret, there("link")).unwrap();
        symlink("/dev/zero", there("endless")).unwrap();
        fs::hard_link(&secret, there("second")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            there("fifo"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        for name in ["link", "endless", "second", "fifo", "missing"] {
            assert!(files.read_now(name, 10).is_err(), "{name}");
        }
        files.write_now("link", b"answer").unwrap();
        assert_eq!(files.read_now("link", 3).unwrap(), b"ans");
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
    }
}
