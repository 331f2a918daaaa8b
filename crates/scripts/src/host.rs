//! What all runs of a server share: where scripts find their SDK, which environment they see, how
//! many run at once, and where too long outputs are kept.

use crate::{
    answer::Kept,
    call_files::{self, CallFolder},
    content::{self, LARGEST},
    manifest::Sandbox,
    observe::Observed,
    policy::Log,
    providers::Clones,
    run::{Nursery, Ran},
    secrets, spots,
    turns::{Bounds, Places},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::broadcast;
use zcp::{Contents, Ctx, ResourceContents};

/// How long, and how many, outputs are kept that are too long to be shown.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
const KEPT: usize = 100;
/// And how many bytes of them.
const KEPT_BYTES: u64 = 1024 * 1024 * 1024;
/// Calls that are held for those who look on and do not keep up.
const OBSERVED: usize = 256;
/// Variables every script sees.
const SEEN: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "TERM",
    "SYSTEMROOT",
    "PATHEXT",
    "COMSPEC",
];

/// The files scripts may use, one for each language.
const SDK: [(&str, &str); 9] = [
    ("zcp.sh", include_str!("../sdk/zcp.sh")),
    ("zcp.py", include_str!("../sdk/zcp.py")),
    ("zcp.js", include_str!("../sdk/zcp.js")),
    ("package.json", "{ \"type\": \"commonjs\" }\n"),
    ("zcp.rb", include_str!("../sdk/zcp.rb")),
    ("zcp.psm1", include_str!("../sdk/zcp.psm1")),
    ("tool-sdk.sh", include_str!("../sdk/tool-sdk.sh")),
    ("ui-sdk.sh", include_str!("../sdk/ui-sdk.sh")),
    ("hooks.sh", include_str!("../sdk/hooks.sh")),
];

/// What all runs share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) nursery: Nursery,
    pub(crate) places: Places,
    /// Everything temporary is in here: made when something runs, and gone with this.
    folder: PathBuf,
    made: OnceLock<()>,
    warned: OnceLock<()>,
    /// The server's own environment.
    env: BTreeMap<String, String>,
    /// Which of it the project sets itself.
    set: BTreeSet<String>,
    path: OsString,
    pub(crate) jq: PathBuf,
    /// The command, which confines scripts.
    pub(crate) command: Option<PathBuf>,
    outputs: Mutex<VecDeque<LongOutput>>,
    /// What scripts in a sandbox may write.
    writable: Mutex<BTreeSet<PathBuf>>,
    /// The logs of calls.
    pub(crate) log: Log,
    /// Whoever looks on.
    pub(crate) observers: broadcast::Sender<Arc<Observed>>,
    counted: AtomicU64,
    /// Repositories that were read a moment ago.
    pub(crate) clones: Clones,
}

#[derive(Debug)]
struct LongOutput {
    id: String,
    path: PathBuf,
    size: u64,
    mime: String,
    /// Who may read it.
    owner: String,
    /// Whose places it takes.
    share: String,
    /// What must not be read in it.
    secrets: Vec<String>,
    at: Instant,
}

/// The environment of this process, as far as it is text. What a client was to fill in, and did
/// not because its user said nothing, is not set.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let is_filled = |value: &str| !(value.starts_with("${user_config.") && value.ends_with('}'));
    std::env::vars_os().filter_map(text).filter(|(_, value)| is_filled(value)).collect()
}

impl Host {
    /// `command` does as jq does for machines without one, and confines scripts.
    pub(crate) fn new(
        command: Option<&Path>,
        mut env: BTreeMap<String, String>,
        set: BTreeMap<String, String>,
        temporary: &Path,
    ) -> io::Result<Self> {
        let names = set.keys().cloned().collect();
        env.extend(set);
        let folder = temporary.join(format!("zcp-{}", zcp::random_name()));
        let own = env.get("PATH").cloned().unwrap_or_default();
        let jq = match (which::which_in("jq", Some(&own), ".").ok(), command) {
            (Some(found), _) => found,
            (None, Some(_)) => folder.join("bin/jq"),
            (None, None) => PathBuf::from("jq"),
        };
        // What the machine has comes first.
        let paths = std::env::split_paths(&own).chain([folder.join("bin")]);
        let path = std::env::join_paths(paths).map_err(io::Error::other)?;
        Ok(Self {
            nursery: Nursery::default(),
            places: Places::new(Bounds::of(&env)),
            folder,
            made: OnceLock::new(),
            warned: OnceLock::new(),
            env,
            set: names,
            path,
            jq,
            command: command.map(Path::to_path_buf),
            outputs: Mutex::default(),
            writable: Mutex::default(),
            log: Log::default(),
            observers: broadcast::Sender::new(OBSERVED),
            counted: AtomicU64::default(),
            clones: Clones::default(),
        })
    }

    /// The folder of everything temporary, which is there from now on.
    fn folder(&self) -> &Path {
        self.made.get_or_init(|| {
            if let Err(error) = self.make() {
                tracing::error!("{}: {error}", self.folder.display());
            }
        });
        &self.folder
    }

    fn make(&self) -> io::Result<()> {
        let mut private = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.create(&self.folder)?;
        self.nursery.guard(&self.folder);
        for name in ["sdk", "bin", "outputs", "calls"] {
            private.create(self.folder.join(name))?;
        }
        for (name, text) in SDK {
            fs::write(self.folder.join("sdk").join(name), text)?;
        }
        if let (Some(command), true) = (&self.command, self.jq.starts_with(&self.folder)) {
            #[cfg(unix)]
            std::os::unix::fs::symlink(command, &self.jq)?;
            #[cfg(not(unix))]
            fs::copy(command, &self.jq).map(drop)?;
        }
        Ok(())
    }

    /// Removes everything temporary.
    pub(crate) fn remove(&self) {
        if self.made.get().is_some() {
            let _ = call_files::remove(&self.folder);
        }
    }

    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// A variable of the server's own environment.
    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// Whether the project itself sets a variable, for its tools.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.set.contains(name)
    }

    /// All of them.
    pub(crate) fn whole_env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub(crate) fn sdk(&self) -> PathBuf {
        self.folder().join("sdk")
    }

    /// What every script sees, and what this one is allowed to.
    pub(crate) fn base_env(&self, allowed: &[String]) -> Vec<(OsString, OsString)> {
        let seen = |name: &str| {
            SEEN.contains(&name) || name.starts_with("LC_") || allowed.iter().any(|one| one == name)
        };
        let own = self.env.iter().filter(|(name, _)| seen(name) && *name != "PATH");
        let mut env: Vec<(OsString, OsString)> =
            own.map(|(name, value)| (name.into(), value.into())).collect();
        env.push(("PATH".into(), self.path.clone()));
        let sdk = self.sdk();
        env.push(("ZCP_SDK".into(), sdk.clone().into()));
        env.push(("ZCP_JQ".into(), self.jq.clone().into()));
        for name in ["PYTHONPATH", "RUBYLIB", "NODE_PATH"] {
            let own = self.env(name).unwrap_or_default();
            let all = std::iter::once(sdk.clone()).chain(std::env::split_paths(own));
            if let Ok(all) = std::env::join_paths(all.filter(|path| !path.as_os_str().is_empty())) {
                env.push((name.into(), all));
            }
        }
        // Otherwise the SDK's folder would fill with what Python compiles.
        env.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        env
    }

    /// Says once that a sandbox protects less from what runs as root.
    pub(crate) fn warn_of_root(&self) {
        if rustix::process::geteuid().is_root() {
            self.warned.get_or_init(|| {
                tracing::warn!(
                    "this server runs as root: scripts in a sandbox have no capabilities, and \
                     still own root's files; run it as another user"
                );
            });
        }
    }

    /// Notes what a sandbox lets a script of a project write.
    pub(crate) fn note_writable(&self, sandbox: &Sandbox, project: &Path) {
        let paths = sandbox.write.iter().flatten().map(|path| spots::plain(&project.join(path)));
        self.writable.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// All that is noted so.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        let writable = self.writable.lock().unwrap_or_else(PoisonError::into_inner);
        writable.iter().cloned().collect()
    }

    /// A file nobody has used for an output yet.
    pub(crate) fn spill(&self) -> PathBuf {
        let number = self.counted.fetch_add(1, Ordering::Relaxed);
        self.folder().join("outputs").join(number.to_string())
    }

    /// A private folder for one call.
    pub(crate) fn call_folder(&self) -> io::Result<CallFolder> {
        CallFolder::new(&self.folder().join("calls"))
    }

    /// How the addresses of kept outputs begin. Of two folders in one server each has its own.
    pub(crate) fn output_scheme(&self) -> String {
        let own = self.folder.file_name().unwrap_or_default().to_string_lossy();
        format!("output://{own}/")
    }

    fn outputs(&self) -> MutexGuard<'_, VecDeque<LongOutput>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an output for its caller.
    pub(crate) fn keep(&self, ran: &Ran, mime: &str, ctx: &Ctx, secrets: &[String]) -> Kept {
        let id = zcp::random_name();
        let (path, size) = (self.spill(), ran.output.total);
        if let Err(error) = fs::rename(&ran.output.spill.path, &path) {
            tracing::warn!("a long output is not kept: {error}");
        }
        let (mime, owner, share) = (mime.to_owned(), ctx.owner(), ctx.share());
        let mut outputs = self.outputs();
        outputs.push_back(LongOutput {
            id: id.clone(),
            path,
            size,
            mime,
            owner,
            share,
            secrets: secrets.to_vec(),
            at: Instant::now(),
        });
        while let Some(old) = one_too_many(&outputs).and_then(|at| outputs.remove(at)) {
            let _ = fs::remove_file(old.path);
        }
        Kept { uri: format!("{}{id}", self.output_scheme()) }
    }

    /// An output that was kept for this caller, or a part of it: `ID` is its beginning, and
    /// `ID/OFFSET` what follows. What is longer than a part says where the next one is.
    pub(crate) async fn kept(&self, id: &str, owner: &str) -> Option<Contents> {
        let (id, from) = match id.split_once('/') {
            Some((id, from)) => (id, from.parse().ok()?),
            None => (id, 0),
        };
        let (path, mime, secrets) = {
            let outputs = self.outputs();
            let fresh = |one: &&LongOutput| one.at.elapsed() <= KEPT_FOR;
            let one =
                outputs.iter().filter(fresh).find(|one| one.id == id && one.owner == owner)?;
            (one.path.clone(), one.mime.clone(), one.secrets.clone())
        };
        let read = tokio::task::spawn_blocking(move || part(&path, from, &secrets));
        let (bytes, next) = read.await.ok()?.ok()?;
        let uri = format!("{}{id}", self.output_scheme());
        let own = if from == 0 { uri.clone() } else { format!("{uri}/{from}") };
        let mut parts = vec![content::contents(bytes, mime, &own)];
        if let Some(next) = next {
            let next = format!("{uri}/{next}");
            let words = format!("This is a part of the output. The next one is {next}");
            parts.push(ResourceContents::text(next, "text/plain", words));
        }
        Some(Contents::Parts(parts))
    }
}

/// The output that is to go, if one is: an old one, or the oldest of the caller who has most.
fn one_too_many(outputs: &VecDeque<LongOutput>) -> Option<usize> {
    if outputs.front()?.at.elapsed() > KEPT_FOR {
        return Some(0);
    }
    let are_many = outputs.len() > KEPT;
    let bytes: u64 = outputs.iter().map(|one| one.size).sum();
    if !are_many && bytes <= KEPT_BYTES {
        return None;
    }
    let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
    for one in outputs {
        *shares.entry(&one.share).or_default() += if are_many { 1 } else { one.size };
    }
    let most = shares.values().max()?;
    outputs.iter().position(|one| shares.get(one.share.as_str()) == Some(most))
}

/// A part of a kept output without its secrets, and where the next part begins.
fn part(path: &Path, from: u64, secrets: &[String]) -> io::Result<(Vec<u8>, Option<u64>)> {
    let mut file = fs::File::open(path)?;
    // A secret may begin before, and end after.
    let around = secrets.iter().map(String::len).max().unwrap_or_default() as u64;
    let begin = from.saturating_sub(around);
    file.seek(io::SeekFrom::Start(begin))?;
    let mut bytes = vec![];
    let before = usize::try_from(from - begin).unwrap_or_default();
    file.take(from - begin + LARGEST + around).read_to_end(&mut bytes)?;
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let end = bytes.len().min(before.saturating_add(most));
    if end == bytes.len() {
        return Ok((secrets::hide_bytes(&bytes, before..end, secrets), None));
    }
    // No letter is cut in two.
    let is_within = |at: &usize| bytes[*at] & 0b1100_0000 == 0b1000_0000;
    let end = (end - 3..=end).rev().find(|at| !is_within(at)).unwrap_or(end);
    let next = begin + end as u64;
    Ok((secrets::hide_bytes(&bytes, before..end, secrets), Some(next)))
}

impl Drop for Host {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(share: &str, size: u64) -> LongOutput {
        let (id, mime, owner) = (String::new(), String::new(), String::new());
        let (path, secrets, share) = (PathBuf::new(), vec![], share.to_owned());
        LongOutput { id, path, size, mime, owner, share, secrets, at: Instant::now() }
    }

    #[test]
    fn whoever_keeps_most_outputs_loses_the_oldest() {
        let mut all: VecDeque<LongOutput> = [output("one", 1)].into();
        all.extend((1..KEPT).map(|_| output("many", 1)));
        assert_eq!(one_too_many(&all), None);
        all.push_back(output("two", 1));
        assert_eq!(one_too_many(&all), Some(1));
        let large =
            [output("one", 1), output("two", KEPT_BYTES / 2), output("one", KEPT_BYTES / 2)];
        assert_eq!(one_too_many(&large.into()), Some(0));
        let large = [output("one", 1), output("two", KEPT_BYTES)];
        assert_eq!(one_too_many(&large.into()), Some(1));
    }
}
