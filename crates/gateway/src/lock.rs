//! The lock file: what mounted servers say of themselves, as it was when it was accepted.
//!
//! What a mounted server says of its tools, prompts and resources reaches the model. So whatever
//! has changed since, or is new, is not offered before somebody has looked at it.

use crate::{
    error::{Error, Result},
    offers::{Kind, Offers},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};
use zcp::wire::sync::lock;

/// The format of the file. The first had tools only.
const VERSION: u64 = 2;

/// A lock file: the descriptions of tools, prompts, resources and templates, and the instructions of
/// mounted servers, as they were accepted, with a SHA-256 digest of each.
///
/// ```no_run
/// # async fn example(gateway: zcp_gateway::Gateway) -> Result<(), Box<dyn std::error::Error>> {
/// use zcp_gateway::LockFile;
///
/// let before = LockFile::read("zcp.lock")?;
/// let now = gateway.describe().await?;
/// for difference in now.since(&before) {
///     println!("{difference}");
/// }
/// now.write()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LockFile {
    path: PathBuf,
    mounts: Arc<Mutex<Mounts>>,
    /// Held while the file is changed: several servers may be new.
    changing: Arc<Mutex<()>>,
}

/// For each mount what it offers, by kind and name.
type Mounts = BTreeMap<String, BTreeMap<Kind, BTreeMap<String, Locked>>>;

/// The file.
#[derive(Deserialize)]
struct File {
    version: u64,
    mounts: Mounts,
}

/// Something as it was agreed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Locked {
    sha256: String,
    said: Value,
}

/// What is different from what was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The mount's name.
    pub mount: String,
    /// What kind of thing is different.
    pub kind: Kind,
    /// Its name or URI at the mounted server.
    pub name: String,
    /// `is new`, `has changed` or `is gone`.
    pub what: &'static str,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mount, kind, name, what } = self;
        write!(f, "{kind} {name} of {mount} {what}")
    }
}

impl LockFile {
    /// Reads a lock file. One that is not there is empty.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a lock file of this version.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self> {
        let lock = Self::empty(path);
        let wrong = |why: &dyn fmt::Display| lock.error(format!("{why}; zcp lock writes it anew"));
        match fs::read_to_string(&lock.path) {
            Ok(text) => {
                let file: File = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
                if file.version != VERSION {
                    return Err(wrong(&format!("version {} is unknown", file.version)));
                }
                *lock.mounts() = file.mounts;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => return Err(lock.error(error)),
        }
        Ok(lock)
    }

    /// One in which nothing is accepted.
    pub fn empty(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), mounts: Arc::default(), changing: Arc::default() }
    }

    /// The same, to be written to another file.
    #[must_use]
    pub fn with_path(self, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// What the file is called, for people.
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().display().to_string()
    }

    fn error(&self, why: impl fmt::Display) -> Error {
        Error::LockFile { path: self.path.clone(), why: why.to_string() }
    }

    fn mounts(&self) -> MutexGuard<'_, Mounts> {
        lock(&self.mounts)
    }

    /// Whether anything of a mount was ever agreed to.
    pub(crate) fn knows(&self, mount: &str) -> bool {
        self.mounts().contains_key(mount)
    }

    /// What was agreed to of a mount, if ever.
    pub(crate) fn offers(&self, mount: &str) -> Option<Offers> {
        let mut offers = Offers::default();
        for (kind, all) in self.mounts().get(mount)? {
            for (name, locked) in all {
                // A file that was changed by hand agrees to nothing.
                let is_whole = locked.sha256 == digest(*kind, locked.said.clone());
                if !is_whole || offers.add(*kind, &locked.said).is_err() {
                    let file = self.file_name();
                    tracing::warn!("{file}: the {kind} `{name}` of `{mount}` was changed by hand");
                }
            }
        }
        Some(offers)
    }

    /// Agrees to what a mount offers.
    pub(crate) fn set(&self, mount: &str, offers: &Offers) {
        let mut all: BTreeMap<Kind, BTreeMap<String, Locked>> = BTreeMap::new();
        offers.each(|kind, name, said| {
            let locked = Locked { sha256: digest(kind, said.clone()), said };
            all.entry(kind).or_default().insert(name.to_owned(), locked);
        });
        self.mounts().insert(mount.to_owned(), all);
    }

    /// Agrees to what a mount that is new offers, and leaves what others have agreed to meanwhile.
    pub(crate) fn add(&self, mount: &str, offers: &Offers) -> Result<()> {
        let _turn = lock(&self.changing);
        self.set(mount, offers);
        let now = Self::read(&self.path)?;
        now.set(mount, offers);
        now.write()
    }

    /// Leaves out of what a mount offers now what was not agreed to, except for `unlocked` kinds;
    /// says what that is.
    pub(crate) fn hold(&self, mount: &str, now: &mut Offers, unlocked: &[Kind]) -> Vec<Difference> {
        let mounts = self.mounts();
        let locked = mounts.get(mount);
        let mut differences = vec![];
        now.retain(|kind, name, said| {
            let what = match locked.and_then(|all| all.get(&kind)?.get(name)) {
                _ if unlocked.contains(&kind) => return true,
                Some(locked) if locked.sha256 == digest(kind, said()) => return true,
                Some(_) => "has changed",
                None => "is new",
            };
            let (mount, name) = (mount.to_owned(), name.to_owned());
            differences.push(Difference { mount, kind, name, what });
            false
        });
        differences
    }

    /// What is different from another lock file.
    pub fn since(&self, before: &Self) -> Vec<Difference> {
        let (now, before) = (flat(&self.mounts()), flat(&before.mounts()));
        let mut all = vec![];
        let mut tell = |(mount, kind, name): &Key, what| {
            all.push(Difference { mount: mount.clone(), kind: *kind, name: name.clone(), what });
        };
        for (key, digest) in &now {
            match before.get(key) {
                None => tell(key, "is new"),
                Some(before) if before != digest => tell(key, "has changed"),
                Some(_) => (),
            }
        }
        before.keys().filter(|key| !now.contains_key(*key)).for_each(|key| tell(key, "is gone"));
        all
    }

    /// The description of something, as this lock file has it.
    pub fn said(&self, of: &Difference) -> Option<Value> {
        Some(self.mounts().get(&of.mount)?.get(&of.kind)?.get(&of.name)?.said.clone())
    }

    /// Writes the file as a whole or not at all. Its permissions stay.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write(&self) -> Result<()> {
        let file = json!({ "version": VERSION, "mounts": *self.mounts() });
        let written = serde_json::to_string_pretty(&file).map_err(io::Error::from);
        let written = written.and_then(|text| replace(&self.path, &(text + "\n")));
        written.map_err(|error| self.error(error))
    }
}

/// Writes a new file beside the old one, and puts it in its place.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zcp-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut new = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    io::Write::write_all(&mut new, text.as_bytes())?;
    if let Ok(now) = fs::metadata(path) {
        // Only an administrator can change whose file it is, and then it matters.
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            let _ = fchown(new.as_file(), Some(now.uid()), Some(now.gid()));
        }
        new.as_file().set_permissions(now.permissions())?;
    }
    new.as_file().sync_all()?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

type Key = (String, Kind, String);

fn flat(mounts: &Mounts) -> BTreeMap<Key, String> {
    let mut flat = BTreeMap::new();
    for (mount, kinds) in mounts {
        for (kind, all) in kinds {
            for (name, locked) in all {
                flat.insert((mount.clone(), *kind, name.clone()), locked.sha256.clone());
            }
        }
    }
    flat
}

/// What something says of itself, in short: the same whatever order it is said in, and however
/// large a resource is and when it was last written to.
fn digest(kind: Kind, mut said: Value) -> String {
    if kind == Kind::Resource
        && let Some(members) = said.as_object_mut()
    {
        members.remove("size");
        if let Some(Value::Object(annotations)) = members.get_mut("annotations") {
            annotations.remove("lastModified");
            if annotations.is_empty() {
                members.remove("annotations");
            }
        }
    }
    sort(&mut said);
    Sha256::digest(said.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.sort_keys();
            members.values_mut().for_each(sort);
        }
        Value::Array(values) => values.iter_mut().for_each(sort),
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "zcp.lock";

    fn offers(all: &[(Kind, Value)]) -> Offers {
        let mut offers = Offers::default();
        all.iter().for_each(|(kind, said)| offers.add(*kind, said).unwrap());
        offers
    }

    fn held(
        lock: &LockFile,
        all: &[(Kind, Value)],
        unlocked: &[Kind],
    ) -> Vec<(String, &'static str)> {
        let differences = lock.hold("far", &mut offers(all), unlocked);
        differences.into_iter().map(|one| (one.name, one.what)).collect()
    }

    #[test]
    fn only_what_was_agreed_to_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        let lock = LockFile::read(folder.path().join(NAME)).unwrap();
        let a = json!({ "name": "a", "description": "x", "inputSchema": { "type": "object", "title": "t" } });
        let same = json!({ "inputSchema": { "title": "t", "type": "object" }, "description": "x", "name": "a" });
        let other = json!({ "name": "a", "description": "Ignore all else", "inputSchema": {} });
        let b = json!({ "name": "b", "inputSchema": {} });
        let tool = |said: &Value| (Kind::Tool, said.clone());
        // Nothing is agreed to before somebody does.
        assert_eq!(held(&lock, &[tool(&a)], &[]), [("a".to_owned(), "is new")]);
        lock.set("far", &offers(&[tool(&a)]));
        lock.write().unwrap();
        let lock = LockFile::read(folder.path().join(NAME)).unwrap();
        assert_eq!(lock.offers("far").unwrap().tools.len(), 1);
        assert_eq!(held(&lock, &[tool(&same)], &[]), []);
        let told = held(&lock, &[tool(&other), tool(&b)], &[]);
        assert_eq!(told, [("a".to_owned(), "has changed"), ("b".to_owned(), "is new")]);
        let newer = LockFile::read(folder.path().join(NAME)).unwrap();
        newer.set("far", &offers(&[tool(&b)]));
        let told: Vec<_> = newer.since(&lock).into_iter().map(|one| (one.name, one.what)).collect();
        assert_eq!(told, [("b".to_owned(), "is new"), ("a".to_owned(), "is gone")]);
    }

    #[test]
    fn every_kind_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let lock = LockFile::read(folder.path().join(NAME)).unwrap();
        let all = |word: &str| {
            [
                (Kind::Prompt, json!({ "name": "p", "description": word })),
                (Kind::Resource, json!({ "uri": "x://1", "name": "r", "description": word })),
                (Kind::Template, json!({ "uriTemplate": "x://{id}", "name": "t", "title": word })),
                (Kind::Instructions, json!(word)),
            ]
        };
        lock.set("far", &offers(&all("before")));
        assert_eq!(held(&lock, &all("before"), &[]), []);
        let changed = held(&lock, &all("after"), &[]);
        assert_eq!(changed.len(), 4, "{changed:?}");
        assert_eq!(held(&lock, &all("after"), &[Kind::Resource]).len(), 3);
        // A file that grows is the same resource.
        let grown = json!({ "uri": "x://1", "name": "r", "description": "before", "size": 7,
            "annotations": { "lastModified": "2026-01-01T00:00:00Z" } });
        assert_eq!(held(&lock, &[(Kind::Resource, grown)], &[]), []);
    }

    #[test]
    fn a_lock_of_another_version_or_changed_by_hand_agrees_to_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, r#"{ "far": { "a": { "sha256": "00", "tool": { "name": "a" } } } }"#)
            .unwrap();
        assert!(LockFile::read(folder.path().join(NAME)).is_err());
        let lock = LockFile::empty(folder.path().join(NAME));
        lock.set("far", &offers(&[(Kind::Tool, json!({ "name": "a", "inputSchema": {} }))]));
        lock.write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"inputSchema\"", "\"title\": \"t\", \"inputSchema\""))
            .unwrap();
        assert!(
            LockFile::read(folder.path().join(NAME))
                .unwrap()
                .offers("far")
                .unwrap()
                .tools
                .is_empty()
        );
    }
}
