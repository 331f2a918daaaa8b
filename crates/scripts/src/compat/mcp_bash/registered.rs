//! What a project written for mcp-bash registers instead of having it found.

use super::{
    ALLOW_HOOKS, PROJECT_ROOT, is_remote_token, is_true, json_tool, means_yes, moved_folder, number,
};
use crate::{
    call_files::{open_regular, read_text},
    host::Host,
    spawn,
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, Read, Seek},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The longest list.
const LONGEST: u64 = 1024 * 1024;
/// How long a hook may take, and how often it is looked whether it has ended.
const TIME: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);
const KINDS: [&str; 5] = ["tools", "resources", "resourceTemplates", "prompts", "completions"];

/// What is registered, by kind; what is not there is found.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registered(Map<String, Value>);

impl Registered {
    /// The entries of a kind, if that kind is registered at all.
    pub(crate) fn kind(&self, kind: &str) -> Option<&Vec<Value>> {
        self.0.get(kind).and_then(Value::as_array)
    }
}

/// What a project registers. A list that is wrong registers nothing of any kind, and nothing is
/// found instead: what it would have hidden must not appear.
pub(crate) fn registered(server: &Path, root: &Path, host: &Host) -> Result<Registered, String> {
    let list = server.join("register.json");
    if is_there(&list)? {
        is_safe(&list, root)?;
        let longest = number(&host.environment, "MCPBASH_MAX_MANUAL_REGISTRY_BYTES");
        return read(&list, longest.unwrap_or(LONGEST)).map(Registered);
    }
    let hook = server.join("register.sh");
    if is_there(&hook)? && is_true(&host.environment, ALLOW_HOOKS) {
        is_safe(&hook, root)?;
        return run(&hook, root, host).map(Registered);
    }
    Ok(Registered::default())
}

/// Whether a file is there. One that cannot be looked at is not taken for none.
pub(crate) fn is_there(path: &Path) -> Result<bool, String> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn read(path: &Path, longest: u64) -> Result<Map<String, Value>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let mut bytes = vec![];
    let read = open_regular(path)
        .and_then(|file| file.take(longest.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|error| wrong(error.to_string()))?;
    if bytes.len() as u64 > longest {
        return Err(wrong(format!("it has more bytes, and may have {longest}")));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(wrong("it begins with a byte order mark: save it without".into()));
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let Value::Object(mut all) = value else { return Err(wrong("it is no object".into())) };
    if all.get("version").and_then(Value::as_f64) != Some(1.0) {
        return Err(wrong("its `version` must be 1".into()));
    }
    all.remove("version");
    all.remove("_meta");
    for (kind, entries) in &all {
        if !KINDS.contains(&kind.as_str()) {
            return Err(wrong(format!("it knows no `{kind}`, only {}", KINDS.join(", "))));
        }
        if !entries.is_array() && !entries.is_null() {
            return Err(wrong(format!("`{kind}` must be a list or null")));
        }
    }
    all.retain(|_, entries| entries.is_array());
    Ok(all)
}

/// Runs the hook in a shell that knows the functions it calls.
fn run(hook: &Path, root: &Path, host: &Host) -> Result<Map<String, Value>, String> {
    let wrong = |why: String| format!("{}: {why}", hook.display());
    let mut command = Command::new("bash");
    command.arg(host.sdk().join("hooks.sh")).arg("register").arg(hook);
    command.current_dir(root).env_clear().envs(environment(root, host));
    let done = patiently(&mut command).map_err(|error| wrong(error.to_string()))?;
    let Some(Output { status, stdout, stderr }) = done else {
        return Err(wrong(format!(
            "it took longer than {} s: it may only register what is there",
            TIME.as_secs()
        )));
    };
    if !status.success() {
        return Err(wrong(format!("it failed: {}", String::from_utf8_lossy(&stderr).trim())));
    }
    if stdout.len() as u64 > LONGEST {
        return Err(wrong("it registers too much".into()));
    }
    let all = serde_json::from_slice::<Map<String, Value>>(&stdout)
        .map_err(|error| wrong(format!("it printed no list: {error}")))?;
    Ok(all.into_iter().filter(|(_, entries)| entries.is_array()).collect())
}

/// What came of a project's own checks of its health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checks {
    /// There are none.
    None,
    /// All is well.
    Passed,
    /// They were not made, and why.
    Skipped(String),
    /// Something is not well, in their words.
    Failed(String),
}

/// Makes the checks of `health-checks.sh` in `server.d/`.
pub(crate) fn checks(server: &Path, root: &Path, host: &Host) -> Checks {
    let file = server.join("health-checks.sh");
    if !file.is_file() {
        return Checks::None;
    }
    if let Err(why) = is_safe(&file, root) {
        return Checks::Skipped(why);
    }
    let mut command = Command::new("bash");
    command.arg(host.sdk().join("hooks.sh")).arg("health").arg(&file);
    command.current_dir(root).env_clear().envs(environment(root, host));
    match patiently(&mut command) {
        Ok(Some(Output { status, .. })) if status.success() => Checks::Passed,
        Ok(Some(Output { stderr, .. })) => {
            Checks::Failed(String::from_utf8_lossy(&stderr).trim().to_owned())
        }
        Ok(None) => Checks::Failed(format!("they took longer than {} s", TIME.as_secs())),
        Err(error) => Checks::Failed(error.to_string()),
    }
}

/// What `env.sh` in `server.d/` sets, where a project's programs may run before anybody calls them.
pub(crate) fn variables(
    root: &Path,
    env: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let file =
        moved_folder(root, "server.d", env).unwrap_or_else(|| root.join("server.d")).join("env.sh");
    if !file.is_file() || !means_yes(env.get(ALLOW_HOOKS)) {
        return Ok(BTreeMap::new());
    }
    is_safe(&file, root)?;
    let wrong = |why: String| format!("{}: {why}", file.display());
    let mut command = Command::new("bash");
    command.args(["-c", "set -a; . \"$1\" >/dev/null && env -0", "bash"]).arg(&file);
    command.current_dir(root).env_clear().envs(env);
    let done = patiently(&mut command).map_err(|error| wrong(error.to_string()))?;
    let Some(Output { status, stdout, stderr }) = done else {
        return Err(wrong(format!("it took longer than {} s", TIME.as_secs())));
    };
    if !status.success() {
        return Err(wrong(format!("it failed: {}", String::from_utf8_lossy(&stderr).trim())));
    }
    let text = String::from_utf8_lossy(&stdout);
    let all = text.split('\0').filter_map(|line| line.split_once('='));
    // What every shell has of its own is nobody's setting.
    let is_own = |name: &str| matches!(name, "_" | "SHLVL" | "PWD" | "OLDPWD");
    let set =
        all.filter(|(name, value)| !is_own(name) && env.get(*name).is_none_or(|old| old != value));
    Ok(set.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// What a hook sees: all the server does but its secret.
pub(crate) fn environment(root: &Path, host: &Host) -> Vec<(OsString, OsString)> {
    let own = host.environment.variables().iter().filter(|(name, _)| !is_remote_token(name));
    let mut env: Vec<(OsString, OsString)> =
        own.map(|(name, value)| (name.into(), value.into())).collect();
    env.push(("PATH".into(), host.environment.path().into()));
    env.push((PROJECT_ROOT.into(), root.into()));
    env.push(("MCP_SDK".into(), host.sdk().into()));
    env.extend(json_tool(&host.environment).map(|(name, value)| (name.into(), value)));
    env
}

/// How a command ended and what it wrote, if it ended in time. Ends it otherwise.
fn patiently(command: &mut Command) -> io::Result<Option<Output>> {
    // Files, which nobody has to read while it runs.
    let (printed, complaints) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(complaints.try_clone()?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = spawn::blocking(command)?;
    let ended = ends_in_time(&mut child)?;
    let _ = child.kill();
    let status = child.wait().map(|status| ended.then_some(status))?;
    let read = |mut file: fs::File| -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        file.rewind()?;
        file.take(LONGEST + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match status {
        Some(status) => {
            Ok(Some(Output { status, stdout: read(printed)?, stderr: read(complaints)? }))
        }
        None => Ok(None),
    }
}

/// Waits until a process ends, for [`TIME`] at most, and ends what it left behind. Until the process
/// itself is waited for, no other one can have the number of its group.
#[cfg(unix)]
fn ends_in_time(child: &mut std::process::Child) -> io::Result<bool> {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    let group = Pid::from_child(child);
    let looked = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);
    let begun = Instant::now();
    let ended = loop {
        match waitid(WaitId::Pid(group), looked)? {
            Some(_) => break true,
            None if begun.elapsed() > TIME => break false,
            None => std::thread::sleep(LOOK),
        }
    };
    let _ = kill_process_group(group, Signal::KILL);
    Ok(ended)
}

#[cfg(not(unix))]
fn ends_in_time(child: &mut std::process::Child) -> io::Result<bool> {
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > TIME {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

/// Others must not be able to say what this server does: the file, its folder and the project
/// belong to whoever runs it, and nobody else may write them.
#[cfg(unix)]
pub(crate) fn is_safe(file: &Path, root: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    let folder = file.parent().unwrap_or(root);
    for path in [file, folder, root] {
        let wrong = |why: &str| Err(format!("{} is not used: {why}", path.display()));
        let Ok(about) = fs::symlink_metadata(path) else { return wrong("it cannot be looked at") };
        if about.is_symlink() && path == file {
            return wrong("it is a link");
        }
        let about = fs::metadata(path).unwrap_or(about);
        if about.uid() != own {
            return wrong("it belongs to somebody else");
        }
        if about.mode() & 0o002 != 0 {
            return wrong("others may write it: chmod go-w");
        }
        if about.mode() & 0o020 != 0 && !is_private(about.gid(), own) {
            return wrong("its group may write it, which may have others in it: chmod g-w");
        }
    }
    Ok(())
}

/// Whether a group is its user's own, as most systems make one for each user: files are then made
/// so that the group may write them (umask 002).
#[cfg(unix)]
fn is_private(group: u32, user: u32) -> bool {
    let read = |path| read_text(Path::new(path), LONGEST).unwrap_or_default();
    is_own_group(group, user, &read("/etc/passwd"), &read("/etc/group"))
}

/// The same by the text of the files that say who is in which group. Users and groups that are kept
/// elsewhere are not known, so only a group that is called as its user is their own.
#[cfg(unix)]
fn is_own_group(group: u32, user: u32, users: &str, groups: &str) -> bool {
    let number = |field: Option<&&str>| field.and_then(|text| text.parse::<u32>().ok());
    let is = |id: u32, fields: &[&str]| number(fields.get(2)) == Some(id);
    let users = lines(users);
    let own = users.iter().find(|fields| is(user, fields));
    let Some(name) = own.and_then(|fields| fields.first().copied()) else { return false };
    let is_alone = |fields: &Vec<&str>| {
        let members = fields.get(3).copied().unwrap_or_default().split(',');
        fields.first() == Some(&name)
            && members.into_iter().all(|one| one.is_empty() || one == name)
    };
    let is_others = |fields: &Vec<&str>| !is(user, fields) && number(fields.get(3)) == Some(group);
    let groups = lines(groups);
    groups.iter().find(|fields| is(group, fields)).is_some_and(is_alone)
        && !users.iter().any(is_others)
}

/// The fields of each line.
#[cfg(unix)]
fn lines(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(':').collect()).collect()
}

#[cfg(not(unix))]
pub(crate) fn is_safe(_: &Path, _: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_of_its_user_alone_may_write() {
        let users = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:100::/:/bin/sh\n\
                     eve:x:1002:1003::/:/bin/sh\n";
        let groups = "root:x:0:\nusers:x:100:\nann:x:1000:ann\nbob:x:1001:ann\neve:x:1003:\n";
        for (group, user, is_own) in [
            (1000, 1000, true),
            (0, 0, true),
            (1003, 1002, true),
            // It is called like nobody, has somebody else in it, or is not known.
            (100, 1001, false),
            (1001, 1001, false),
            (1003, 1000, false),
            (4711, 1000, false),
            (1000, 4711, false),
        ] {
            assert_eq!(is_own_group(group, user, users, groups), is_own, "{group} {user}");
        }
        let users = format!("{users}mal:x:1009:1000::/:/bin/sh\n");
        assert!(!is_own_group(1000, 1000, &users, groups));
    }
}
