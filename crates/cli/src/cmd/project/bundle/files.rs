//! Which files of a folder go into its bundle.

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use std::{
    error::Error,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Hidden files and folders hold settings and credentials of the machine, except these.
const HIDDEN: [&str; 8] = [
    ".*",
    "!.python-version",
    "!.node-version",
    "!.nvmrc",
    "!.ruby-version",
    "!.tool-versions",
    "!**/node_modules/.*",
    "!**/node_modules/**/.*",
];

/// What nobody needs who only uses the tools.
const USELESS: [&str; 15] = [
    ".git",
    ".hg",
    ".svn",
    ".DS_Store",
    "Thumbs.db",
    "__pycache__/",
    "*.pyc",
    "*.swp",
    "*~",
    "*.mcpb",
    ".mcpbignore",
    "/mcpb.conf",
    "/.mcp-bash/",
    "/.registry/",
    "/tests/",
];

/// How much of a file shows whether it is a key.
const BEGINNING: u64 = 4096;

/// How every database of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// What may hold secrets; the last ones do not.
const SECRET: [&str; 48] = [
    ".env",
    "*.env",
    ".env.*",
    "*.env.*",
    ".envrc",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_*_sk",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh/",
    ".aws/",
    ".docker",
    ".kube",
    ".pgpass",
    ".*_history",
    "_netrc",
    "*.tfvars",
    "*.tfvars.json",
    "*.tfstate",
    "*.tfstate.*",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "core.[0-9]*",
    "service-account*.json",
    "credentials",
    "credentials.{json,toml,yaml,yml,ini}",
    "secrets.{json,toml,yaml,yml,ini}",
    "*.sqlite*",
    "*.db-wal",
    "*.db-shm",
    "*.db-journal",
    "*.bak",
    "*.bak-*",
    "/.mcp.json",
    "/.cursor",
    "/.vscode",
    "/.gemini",
    "/.codex",
    "/.zed",
    "!*.env.example",
    "!*.env.sample",
    "!*.env.template",
];

/// What to do about a link.
const HINT: &str = "put what it leads to in its place, or name it in .mcpbignore";

/// What goes in, and what does not.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) kept: Vec<Kept>,
    pub(super) left_out: Vec<LeftOut>,
    /// Warnings for the author of the bundle.
    pub(super) warnings: Vec<String>,
}

/// A file that goes in, or a folder with nothing in it.
#[derive(Debug)]
pub(super) struct Kept {
    /// Where it is in the folder, with `/` between.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) is_folder: bool,
    /// Only its owner may read it, and nobody said that it goes in.
    is_private: bool,
}

/// A file or a folder that stays out, and why.
#[derive(Debug, serde::Serialize)]
pub(super) struct LeftOut {
    pub(super) path: String,
    pub(super) why: String,
}

/// Looks at everything in a folder. `own` are files the server writes for its operator.
pub(super) fn find(root: &Path, own: &[PathBuf]) -> Result<Files> {
    let found = Files::default();
    let mut search = Search { root, own, rules: rules(root)?, open: vec![], found };
    search.walk(root, "")?;
    search.leave_out_private();
    search.found.kept.sort_by(|one, other| one.name.cmp(&other.name));
    search.found.left_out.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(search.found)
}

/// Ours first, so that `.mcpbignore` can say otherwise.
fn rules(root: &Path) -> Result<Gitignore> {
    let mut rules = GitignoreBuilder::new(root);
    for line in HIDDEN.iter().chain(&USELESS).chain(&SECRET) {
        rules.add_line(None, line)?;
    }
    let own = root.join(".mcpbignore");
    for line in text_of(root, ".mcpbignore")?.unwrap_or_default().lines() {
        let wrong = |error| format!(".mcpbignore, `{line}`: {error}");
        rules.add_line(Some(own.clone()), line).map_err(wrong)?;
    }
    Ok(rules.build()?)
}

/// What a file of a folder says, if it is there.
pub(super) fn text_of(root: &Path, name: &str) -> Result<Option<String>> {
    match fs::read_to_string(root.join(name)) {
        Ok(text) => Ok(Some(text.trim_start_matches('\u{feff}').to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}

struct Search<'a> {
    root: &'a Path,
    own: &'a [PathBuf],
    rules: Gitignore,
    /// The folders that are being looked into.
    open: Vec<PathBuf>,
    found: Files,
}

impl Search<'_> {
    /// Looks into a folder. `name` is what it is called in the bundle.
    fn walk(&mut self, folder: &Path, name: &str) -> Result<()> {
        if self.open.iter().any(|open| open == folder) {
            return Err(format!("{name} leads to a folder it is in: {HINT}").into());
        }
        self.open.push(folder.to_owned());
        let wrong = |error| format!("{}: {error}", folder.display());
        let mut entries =
            fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries = entries.as_mut().map_err(|error| wrong(&*error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        if entries.is_empty() && !name.is_empty() {
            let (name, path) = (name.to_owned(), folder.to_owned());
            self.found.kept.push(Kept { name, path, is_folder: true, is_private: false });
        }
        for entry in entries {
            let last = entry.file_name();
            let last = last.to_str().ok_or_else(|| {
                format!("{} has a name that is not UTF-8: rename it", entry.path().display())
            })?;
            let name = if name.is_empty() { last.to_owned() } else { format!("{name}/{last}") };
            self.look(&entry.path(), folder, name)?;
        }
        self.open.pop();
        Ok(())
    }

    fn look(&mut self, path: &Path, folder: &Path, name: String) -> Result<()> {
        let kind = fs::symlink_metadata(path)?.file_type();
        if let Some(why) = self.excluded(path, kind.is_dir()) {
            self.leave_out(&name, kind.is_dir(), &why);
            return Ok(());
        }
        let path = match kind.is_symlink() {
            true => match self.followed(path, folder, &name)? {
                Some(target) => target,
                None => return Ok(()),
            },
            false => path.to_owned(),
        };
        let kind = fs::metadata(&path)?.file_type();
        if kind.is_dir() {
            return self.walk(&path, &name);
        }
        if !kind.is_file() {
            self.leave_out(&name, false, "it is no file");
        } else if self.is_key(&path) {
            self.leave_out(&name, false, "it is a private key");
        } else if !self.is_wanted(&path) && is_database(&path) {
            self.leave_out(&name, false, "it is a database");
        } else if self.is_own(&path) {
            self.leave_out(&name, false, "it is the log of calls");
        } else {
            let is_private = is_private(&path) && !self.is_wanted(&path);
            self.found.kept.push(Kept { name, path, is_folder: false, is_private });
        }
        Ok(())
    }

    /// Where a link leads: into the folder, or the bundle is not made.
    fn followed(&mut self, link: &Path, folder: &Path, name: &str) -> Result<Option<PathBuf>> {
        let Ok(target) = link.canonicalize() else {
            self.leave_out(name, false, "it leads nowhere");
            return Ok(None);
        };
        if !target.starts_with(self.root) {
            return Err(format!("{name} leads out of the folder: {HINT}").into());
        }
        if folder.starts_with(&target) {
            return Err(format!("{name} leads to a folder it is in: {HINT}").into());
        }
        let is_folder = target.is_dir();
        match self.rules.matched_path_or_any_parents(&target, is_folder) {
            Match::Ignore(_) => {
                self.leave_out(name, is_folder, "it leads to something that is left out");
                Ok(None)
            }
            _ => Ok(Some(target)),
        }
    }

    fn excluded(&self, path: &Path, is_folder: bool) -> Option<String> {
        let Match::Ignore(rule) = self.rules.matched(path, is_folder) else { return None };
        Some(match rule.from() {
            Some(_) => format!("`{}` in .mcpbignore", rule.original()),
            None if SECRET.contains(&rule.original()) => "it may hold secrets".to_owned(),
            None if HIDDEN.contains(&rule.original()) => "it is hidden".to_owned(),
            None => "tools do not need it".to_owned(),
        })
    }

    /// Whether `.mcpbignore` says that a file goes in.
    fn is_wanted(&self, path: &Path) -> bool {
        let Match::Whitelist(rule) = self.rules.matched(path, false) else { return false };
        rule.from().is_some()
    }

    /// Whether a file is a private key, and nobody said that it goes in.
    fn is_key(&self, path: &Path) -> bool {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let longest = if matches!(ending, "pem" | "key") { u64::MAX } else { BEGINNING };
        !self.is_wanted(path)
            && (matches!(ending, "p12" | "pfx") || has_key(path, longest).unwrap_or(false))
    }

    /// Whether a file is one the server writes for its operator, and nobody said that it goes in.
    fn is_own(&self, path: &Path) -> bool {
        let is_it = |own: &PathBuf| own.canonicalize().is_ok_and(|own| own == path);
        !self.is_wanted(path)
            && (self.own.iter().any(|own| own == path) || self.own.iter().any(is_it))
    }

    /// Leaves out files that only their owner may read, as programs write secrets. Where most files
    /// are like that, it is the owner's habit (a umask of 077) and says nothing.
    fn leave_out_private(&mut self) {
        let private = self.found.kept.iter().filter(|one| one.is_private).count();
        let files = self.found.kept.iter().filter(|one| !one.is_folder).count();
        if private * 2 > files {
            self.found.warnings.push(format!(
                "{private} of {files} files can be read by their owner only, so that this does not \
                 tell secrets from others: make sure that none is among them"
            ));
            return;
        }
        for one in std::mem::take(&mut self.found.kept) {
            match one.is_private {
                true => {
                    let why = format!("only its owner may read it: `!{}` in .mcpbignore", one.name);
                    self.leave_out(&one.name, false, &format!("{why} packs it"));
                }
                false => self.found.kept.push(one),
            }
        }
    }

    fn leave_out(&mut self, name: &str, is_folder: bool, why: &str) {
        let path = if is_folder { format!("{name}/") } else { name.to_owned() };
        self.found.left_out.push(LeftOut { path, why: why.to_owned() });
    }
}

/// Whether only its owner may read a file.
fn is_private(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 == 0)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Whether a file is a database of SQLite, whatever it is called.
fn is_database(path: &Path) -> bool {
    let mut bytes = [0; SQLITE.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.is_ok() && bytes == SQLITE
}

/// Whether a private key is in the first bytes of a file.
fn has_key(path: &Path, longest: u64) -> io::Result<bool> {
    let mut bytes = vec![];
    fs::File::open(path)?.take(longest).read_to_end(&mut bytes)?;
    let is_key = |line: &str| {
        let after = line.split_once("-----BEGIN").map(|(_, after)| after);
        after.is_some_and(|after| {
            ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"].iter().any(|end| after.contains(end))
        })
    };
    Ok(String::from_utf8_lossy(&bytes).lines().any(is_key))
}
