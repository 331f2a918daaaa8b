//! A script in a sandbox: what it may read, write and reach is taken away before it begins.
//!
//! Linux does it itself (Landlock and seccomp), for the process and all that come of it. The
//! command starts itself once more, confines itself, and becomes the script. Resource limits are
//! set on the same way, so that they hold from the script's first instruction.

#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod spots;

use crate::{manifest::Sandbox, run::Ceilings, spawn};
use serde::{Deserialize, Serialize};
use spots::Spot;
use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

/// What the command is called with to confine itself.
pub const CONFINED: &str = "__confined";

/// What programs need to run at all.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys"];
/// Devices that are read and written. No terminal is among them, and no other part of `/dev`.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Before the name of each variable of a script, as long as the process is still the `zcp` command:
/// `LD_PRELOAD` and its like take effect on the script alone, inside of its sandbox.
const SET_ASIDE: &str = "~";

/// The name under which a variable waits until the process is confined.
pub(crate) fn set_aside(name: &OsStr) -> OsString {
    let mut aside = OsString::from(SET_ASIDE);
    aside.push(name);
    aside
}

/// The variables of the program that is started now, under their own names.
#[cfg(target_os = "linux")]
fn given_back() -> impl Iterator<Item = (OsString, OsString)> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    std::env::vars_os().map(|(name, value)| {
        let own = name.as_bytes().strip_prefix(SET_ASIDE.as_bytes());
        (own.map_or_else(|| name.clone(), |own| OsString::from_vec(own.to_vec())), value)
    })
}

/// What a script may do, for the process that becomes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rules {
    /// Its sandbox, if it has one.
    walls: Option<Walls>,
    ceilings: Ceilings,
    /// Where files of its answer really are, if it may not read everything. For the server alone.
    #[serde(skip)]
    files: Option<Vec<PathBuf>>,
}

/// What a sandbox lets through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Walls {
    /// Nothing else may be read; anything may without this.
    read: Option<Vec<Spot>>,
    /// Nothing else may be written; anything may without this.
    write: Option<Vec<Spot>>,
    network: bool,
    unix_sockets: bool,
    signals: bool,
}

/// What a script needs whatever it may do.
pub(crate) struct Needs<'a> {
    pub(crate) project: &'a Path,
    pub(crate) program: &'a Path,
    /// Where programs are looked for.
    pub(crate) path: &'a OsStr,
    pub(crate) sdk: &'a Path,
    /// A folder of its own.
    pub(crate) temporary: &'a Path,
    /// The files of its contract, if it has one.
    pub(crate) contract: Option<&'a Path>,
    /// What scripts in a sandbox may write.
    pub(crate) writable: Vec<PathBuf>,
}

impl Rules {
    /// No sandbox, and these limits.
    pub(crate) fn limits(ceilings: Ceilings) -> Self {
        Self { walls: None, ceilings, files: None }
    }

    /// A sandbox, and these limits.
    pub(crate) fn new(sandbox: &Sandbox, needs: &Needs<'_>, ceilings: Ceilings) -> Self {
        let there = |path: &PathBuf| Spot::among(&needs.project.join(path), &needs.writable);
        let mut own = vec![needs.temporary.to_path_buf()];
        own.extend(needs.contract.map(Path::to_path_buf));
        let folders = own.clone();
        own.extend(DEVICES.map(PathBuf::from));
        let write = sandbox.write.as_ref().map(|paths| {
            let own = own.iter().cloned().map(Spot::fixed);
            paths.iter().map(there).chain(own).collect::<Vec<Spot>>()
        });
        let files = sandbox.read.as_ref().map(|paths| {
            let named = paths.iter().chain(sandbox.write.iter().flatten()).map(there);
            let folders = folders.into_iter().chain([needs.project.to_path_buf()]);
            named.chain(folders.map(Spot::fixed)).filter_map(|spot| spot.real()).collect()
        });
        let read = sandbox.read.as_ref().map(|paths| {
            let named = paths.iter().map(there);
            let mut all: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
            all.extend(resolver().filter(|_| sandbox.network));
            all.extend([needs.sdk.to_path_buf(), needs.project.to_path_buf()]);
            all.extend(own);
            all.extend(installed(needs));
            let written = write.iter().flatten().cloned();
            named.chain(written).chain(all.into_iter().map(Spot::fixed)).collect()
        });
        let (network, signals) = (sandbox.network, sandbox.signals);
        let unix_sockets = sandbox.allows_unix_sockets();
        let walls = Walls { read, write, network, unix_sockets, signals };
        Self { walls: Some(walls), ceilings, files }
    }

    /// Where the server reads files for its answer, if not everywhere: the project, what the sandbox
    /// names and folders of its own. What programs need to run is not among them.
    pub(crate) fn files(&self) -> Option<&[PathBuf]> {
        self.files.as_deref()
    }

    /// The words before a program's own that confine it.
    pub(crate) fn words(&self) -> Vec<String> {
        vec![CONFINED.to_owned(), serde_json::to_string(self).unwrap_or_default()]
    }
}

/// The file that names this machine's DNS servers. On many systems it is outside of `/etc`, which
/// only has a link to it.
fn resolver() -> Option<PathBuf> {
    std::fs::canonicalize("/etc/resolv.conf").ok().filter(|file| !file.starts_with("/etc"))
}

/// Where the programs of `PATH` are installed: their folders, and what they need beside these.
fn installed(needs: &Needs<'_>) -> Vec<PathBuf> {
    let folders = std::env::split_paths(needs.path).filter(|path| path.is_absolute());
    let program = needs.program.parent().map(Path::to_path_buf);
    // Python of a virtual environment is a link to the one it was made with.
    let is_virtual = program.iter().any(|folder| folder.join("../pyvenv.cfg").is_file());
    let real = is_virtual.then(|| needs.program.canonicalize().ok()).flatten();
    let real = real.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let mut all = vec![];
    for folder in folders.chain(program).chain(real) {
        let above = folder
            .parent()
            .filter(|above| above.parent().is_some() && Some(*above) != needs.sdk.parent());
        all.extend(above.into_iter().flat_map(parts));
        all.push(folder);
    }
    all
}

/// What programs need of the folder they are installed in, which may have more in it.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut parts = vec!["lib", "lib64", "libexec", "versions", "version", "plugins", "include"];
    match folder.ends_with(".local") {
        true => parts.extend(["pipx", "share/pipx", "share/uv"]),
        false => parts.push("share"),
    }
    parts.into_iter().map(|part| folder.join(part)).collect()
}

/// Why a script in a sandbox may have failed, by what it said last.
pub(crate) fn explain(sandbox: &Sandbox, complaints: &str) -> String {
    let says = |words: &[&str]| words.iter().any(|word| complaints.contains(word));
    let list = |paths: &[PathBuf]| match paths {
        [] => "nothing".to_owned(),
        paths => paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
    };
    let denied = says(&["ermission denied", "EACCES", "Read-only"]);
    let mut rules = vec![];
    let mut rule = |applies: bool, words: String| rules.push((applies, words));
    if let Some(read) = &sandbox.read {
        let also = match read.as_slice() {
            [] => String::new(),
            read => format!(", and {}", list(read)),
        };
        rule(
            denied,
            format!(
                "`read`: it may read the project, its temporary folder, what programs need (`/usr`, \
                 `/etc`, `/opt`, `/proc` and the like){also}"
            ),
        );
    }
    if let Some(write) = &sandbox.write {
        rule(denied, format!("`write`: beside its temporary folder it may write {}", list(write)));
    }
    if !sandbox.network {
        let refused = says(&["ddress family not supported", "EAFNOSUPPORT", "resolv", "EAI_"]);
        rule(refused, "`network`: it may open no socket".to_owned());
    } else if !sandbox.allows_unix_sockets() {
        let refused = says(&["ddress family not supported", "EAFNOSUPPORT"]);
        rule(refused, "`unix-sockets`: it may open no Unix socket".to_owned());
    }
    if !sandbox.signals {
        let refused = says(&["not permitted", "EPERM"]);
        rule(refused, "`signals`: it may signal only its own processes".to_owned());
    }
    let applies = rules.iter().any(|(applies, _)| *applies);
    let shown = rules.into_iter().filter(|(one, _)| *one || !applies).map(|(_, words)| words);
    let shown = shown.collect::<Vec<_>>().join("; ");
    match applies {
        true => format!("The sandbox stopped it. {shown}."),
        false => format!("It ran in a sandbox. {shown}."),
    }
}

/// What a sandbox can forbid on this system, and why not where it cannot: tried, by starting the
/// `zcp` command in each.
pub async fn sandbox(command: &Path) -> Vec<(&'static str, Result<(), String>)> {
    let open = Walls { read: None, write: None, network: true, unix_sockets: true, signals: true };
    let everything = Some(vec![Spot::fixed(PathBuf::from("/"))]);
    let each = [
        ("reading", Walls { read: everything.clone(), ..open.clone() }),
        ("writing", Walls { write: everything, ..open.clone() }),
        ("network", Walls { network: false, ..open.clone() }),
        ("signals", Walls { signals: false, ..open }),
    ];
    let mut all = vec![];
    for (what, walls) in each {
        let rules = Rules { walls: Some(walls), ceilings: Ceilings::default(), files: None };
        let mut tried = tokio::process::Command::new(command);
        tried.args(rules.words()).arg(command).arg("--version");
        tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let done = match spawn::child(&mut tried) {
            Ok(child) => child.wait_with_output().await,
            Err(error) => Err(error),
        };
        let fails = match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        all.push((what, fails));
    }
    all
}

/// Confines this process by the first word, and becomes the program that follows. Only comes back
/// if that cannot be done: a script that is to be confined does not run free.
#[cfg(target_os = "linux")]
pub fn become_confined(words: &[String]) -> io::Error {
    use std::os::unix::process::CommandExt;
    let [rules, program, args @ ..] = words else {
        return io::Error::other("a program is missing");
    };
    let confined =
        serde_json::from_str(rules).map_err(io::Error::other).and_then(|rules: Rules| {
            // First, as it opens more files than the script may have to.
            let has_limited_memory = rules.ceilings.memory.is_some();
            let confine = |walls| linux::confine(walls, has_limited_memory);
            rules.walls.as_ref().map_or(Ok(()), confine)?;
            rules.ceilings.set(None)
        });
    match confined {
        Ok(()) => {
            let mut command = std::process::Command::new(program);
            command.args(args).env_clear().envs(given_back()).exec()
        }
        Err(error) => error,
    }
}

/// There is no sandbox on this system.
#[cfg(not(target_os = "linux"))]
pub fn become_confined(_: &[String]) -> io::Error {
    io::Error::other("there is no sandbox on this system")
}
