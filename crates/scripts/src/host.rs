//! What all runs of a server share: where scripts find their SDK, which environment they see, how
//! many run at once, and where too long outputs are kept.

use crate::{
    answer::Kept,
    run::{Nursery, Ran},
};
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use zcp::{Contents, Principal};

/// Scripts that run at once, of all tools together.
const AT_ONCE: usize = 64;
/// How long, and how many, outputs are kept that are too long to be shown.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
const KEPT: usize = 100;
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
    pub(crate) places: Semaphore,
    /// Everything temporary is in here, and gone with it.
    folder: TempDir,
    /// The server's own environment.
    env: BTreeMap<String, String>,
    path: OsString,
    pub(crate) jq: PathBuf,
    /// The command, which confines scripts.
    pub(crate) command: Option<PathBuf>,
    outputs: Mutex<VecDeque<LongOutput>>,
    counted: AtomicU64,
}

#[derive(Debug)]
struct LongOutput {
    id: String,
    path: PathBuf,
    mime: String,
    owner: Principal,
    at: Instant,
}

/// The environment of this process, as far as it is text.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

impl Host {
    /// `command` does as jq does for machines without one, and confines scripts.
    pub(crate) fn new(
        command: Option<&Path>,
        env: BTreeMap<String, String>,
        temporary: &Path,
    ) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("zcp-").tempdir_in(temporary)?;
        for name in ["sdk", "bin", "outputs", "calls"] {
            fs::create_dir(folder.path().join(name))?;
        }
        for (name, text) in SDK {
            fs::write(folder.path().join("sdk").join(name), text)?;
        }
        let own = env.get("PATH").cloned().unwrap_or_default();
        let bin = folder.path().join("bin");
        let found = which::which_in("jq", Some(&own), ".").ok();
        let jq = match (found, command) {
            (Some(found), _) => found,
            (None, Some(program)) => {
                let link = bin.join("jq");
                #[cfg(unix)]
                std::os::unix::fs::symlink(program, &link)?;
                #[cfg(not(unix))]
                fs::copy(program, &link).map(drop)?;
                link
            }
            (None, None) => PathBuf::from("jq"),
        };
        // What the machine has comes first.
        let paths = std::env::split_paths(&own).chain([bin]);
        let path = std::env::join_paths(paths).map_err(io::Error::other)?;
        Ok(Self {
            nursery: Nursery::new(folder.path()),
            places: Semaphore::new(AT_ONCE),
            folder,
            env,
            path,
            jq,
            command: command.map(Path::to_path_buf),
            outputs: Mutex::default(),
            counted: AtomicU64::default(),
        })
    }

    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// A variable of the server's own environment.
    pub(crate) fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// All of them.
    pub(crate) fn whole_env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    pub(crate) fn sdk(&self) -> PathBuf {
        self.folder.path().join("sdk")
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

    /// A file nobody has used for an output yet.
    pub(crate) fn spill(&self) -> PathBuf {
        let number = self.counted.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join("outputs").join(number.to_string())
    }

    /// A private folder for one call.
    pub(crate) fn call_folder(&self) -> io::Result<TempDir> {
        tempfile::Builder::new().prefix("call-").tempdir_in(self.folder.path().join("calls"))
    }

    fn outputs(&self) -> MutexGuard<'_, VecDeque<LongOutput>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an output for its caller.
    pub(crate) fn keep(&self, ran: &Ran, mime: &str, owner: &Principal) -> Kept {
        let id = zcp::random_name();
        let path = ran.output.spill.path.clone();
        let (mime, owner) = (mime.to_owned(), owner.clone());
        let mut outputs = self.outputs();
        outputs.push_back(LongOutput { id: id.clone(), path, mime, owner, at: Instant::now() });
        while outputs.len() > KEPT || outputs.front().is_some_and(|one| one.at.elapsed() > KEPT_FOR)
        {
            if let Some(old) = outputs.pop_front() {
                let _ = fs::remove_file(old.path);
            }
        }
        Kept { uri: format!("{OUTPUT}{id}") }
    }

    /// An output that was kept for this caller.
    pub(crate) async fn kept(&self, id: &str, principal: &Principal) -> Option<Contents> {
        let (path, mime) = {
            let outputs = self.outputs();
            let fresh = |one: &&LongOutput| one.at.elapsed() <= KEPT_FOR;
            let one =
                outputs.iter().filter(fresh).find(|one| one.id == id && one.owner == *principal)?;
            (one.path.clone(), one.mime.clone())
        };
        let bytes = tokio::fs::read(path).await.ok()?;
        let uri = format!("{OUTPUT}{id}");
        Some(Contents::Parts(vec![crate::content::contents(bytes, mime, &uri)]))
    }
}

/// What kept outputs are read by.
pub(crate) const OUTPUT: &str = "output://";
