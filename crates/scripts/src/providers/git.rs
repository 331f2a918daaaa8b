//! The provider of `git+https:`: one file of a repository, as `git+https://HOST/REPOSITORY#REF:PATH`.
//!
//! The repository is fetched without its history and, where its server can, without other files.
//! It has no work tree: what is read is an object, so there is no link to follow and no folder to
//! leave.

use super::{Got, decoded, provider_rules::Settings, reach::Way};
use crate::{
    call::program::{Gave, Given, Program},
    call_files::CallFolder,
    content,
    host::Host,
    project::Project,
};
use std::{
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::sleep;
use zcp::{CallError, Ctx, Result};

/// Where hosts are allowed.
const SETTING: &str = "[providers.git] allow";
/// How often it is looked how large a repository has become.
const LOOK: Duration = Duration::from_millis(50);
/// What was asked for, in the repository here.
const HERE: &str = "refs/zcp/here";

/// What an address asks for.
#[derive(Debug, PartialEq)]
struct Asked {
    repository: String,
    reference: String,
    path: String,
}

/// What is there.
pub(super) async fn read(
    uri: &str,
    project: &Arc<Project>,
    host: &Arc<Host>,
    ctx: &Ctx,
) -> Result<Got> {
    let settings = Settings::git(project, &host.environment);
    if !settings.is_enabled {
        return Err(CallError::new(
            "repositories are not read: say `enabled = true` in `[providers.git]` of zcp.toml",
        ));
    }
    let asked = Asked::of(uri).map_err(CallError::Invalid)?;
    let reading = async {
        let way = settings.hosts.way(&asked.repository, SETTING).await?;
        let program =
            Program::named("git", settings.time, project, host).map_err(CallError::new)?;
        let git = Git { program, way, settings: &settings, ctx };
        let place = host.repositories.folder(&asked.repository, &asked.reference);
        let folder = place.get_or_try_init(|| git.fetch(&asked, uri, host)).await?;
        git.file(&folder.path().join("repository"), &asked, uri).await
    };
    match tokio::time::timeout(settings.time, reading).await {
        Ok(got) => got,
        Err(_) => Err(CallError::new(format!("it took longer than {} s", settings.time.as_secs()))),
    }
}

/// The first that can be told where a host is.
const OLDEST: (u32, u32) = (2, 37);

impl Asked {
    fn of(uri: &str) -> Result<Self, String> {
        let shape = || {
            "an address of a repository's file is git+https://HOST/REPOSITORY#REF:PATH".to_owned()
        };
        let (repository, rest) =
            uri.strip_prefix("git+").and_then(|uri| uri.split_once('#')).ok_or_else(shape)?;
        let (reference, path) = rest.split_once(':').ok_or_else(shape)?;
        let (reference, path) = (decoded(reference), decoded(path));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-+@".contains(c);
        let is_odd = reference.starts_with('-') || reference.contains("..");
        if is_odd || !reference.chars().all(is_plain) {
            return Err(format!("`{reference}` is no branch, tag or commit"));
        }
        let inside = |part: Component| matches!(part, Component::Normal(_));
        let is_text = !path.contains(['\0', '\n', '\\']) && !path.is_empty();
        if !is_text || !Path::new(&path).components().all(inside) {
            return Err(format!("`{path}` is no file of a repository"));
        }
        let reference = if reference.is_empty() { "HEAD".to_owned() } else { reference };
        Ok(Self { repository: repository.to_owned(), reference, path })
    }
}

/// What `git version` says.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split_whitespace().nth(2)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The command, and where it may go.
struct Git<'a> {
    program: Program,
    way: Way,
    settings: &'a Settings,
    ctx: &'a Ctx,
}

impl Git<'_> {
    /// Fetches what is asked for, and nothing before it.
    async fn fetch(&self, asked: &Asked, uri: &str, host: &Host) -> Result<CallFolder> {
        let folder = host.call_folder()?;
        let repository = folder.path().join("repository");
        let gave = self.run(&repository, &["version"]).await?;
        if version(&String::from_utf8_lossy(&gave.bytes)) < Some(OLDEST) {
            let (major, minor) = OLDEST;
            let why = format!(
                "git must be {major}.{minor} or newer: an older one asks anew where a host is"
            );
            return Err(CallError::new(why));
        }
        let made = self.run(&repository, &["init", "--quiet", "--bare", "--template="]).await?;
        self.well(&made)?;
        let wanted = format!("+{}:{HERE}", asked.reference);
        let words = ["fetch", "--quiet", "--depth=1", "--no-tags", "--filter=blob:none", "origin"];
        let gave = self.run(&repository, &[&words[..], &[wanted.as_str()]].concat()).await?;
        let is_missing = ["couldn't find remote ref", "not our ref", "' not found"]
            .iter()
            .any(|words| gave.complaints.contains(words));
        if gave.code != Some(0) && is_missing {
            return Err(CallError::NotFound(uri.to_owned()));
        }
        self.well(&gave)?;
        Ok(folder)
    }

    /// One file of it.
    async fn file(&self, repository: &Path, asked: &Asked, uri: &str) -> Result<Got> {
        let words = ["ls-tree", "-z", "--full-tree", HERE, "--", &asked.path];
        let gave = self.run(repository, &words).await?;
        self.well(&gave)?;
        let entry = String::from_utf8_lossy(&gave.bytes).into_owned();
        let (about, path) = entry.trim_end_matches('\0').split_once('\t').unwrap_or_default();
        let (mode, object) = (about.split(' ').next(), about.split(' ').nth(2));
        let (Some(mode), Some(object), true) = (mode, object, path == asked.path) else {
            return Err(CallError::NotFound(uri.to_owned()));
        };
        match mode {
            "100644" | "100755" => (),
            "120000" => return Err(CallError::new("it is a link, which is not followed")),
            _ => return Err(CallError::Invalid(format!("`{path}` is no file"))),
        }
        let gave = self.run(repository, &["cat-file", "blob", object]).await?;
        self.well(&gave)?;
        let mime = content::mime_of(Some(Path::new(path)), &gave.bytes);
        Ok(Got { bytes: gave.bytes, mime: Some(mime) })
    }

    /// Runs it on a repository, which may not grow too large meanwhile.
    async fn run(&self, repository: &Path, words: &[&str]) -> Result<Gave> {
        let mut argv = vec![OsString::from("--git-dir"), repository.into()];
        argv.extend(words.iter().map(OsString::from));
        let given = Given { argv, env: self.env(repository), stdin: None };
        let limit = self.settings.limit;
        let outgrown = async {
            while size(repository) <= limit {
                sleep(LOOK).await;
            }
        };
        let too_large =
            || CallError::new(format!("the repository is too large: it may have {limit} bytes"));
        let gave = tokio::select! {
            gave = self.program.run(given, Some(self.ctx)) => gave?,
            () = outgrown => return Err(too_large()),
        };
        match size(repository) > limit {
            true => Err(too_large()),
            false => Ok(gave),
        }
    }

    /// Its environment: nobody's settings, no questions, and one way to go.
    fn env(&self, repository: &Path) -> Vec<(OsString, OsString)> {
        let addresses: Vec<String> =
            self.way.addresses.iter().map(|one| bracketed(&one.ip())).collect();
        let name = self.way.host.trim_matches(['[', ']']);
        let pinned = format!("{name}:{}:{}", self.way.port, addresses.join(","));
        let mut config = vec![
            ("remote.origin.url", self.way.url.to_string()),
            ("http.followRedirects", "false".to_owned()),
            ("http.proxy", String::new()),
            ("http.userAgent", self.settings.user_agent.clone()),
            ("credential.helper", String::new()),
            ("core.hooksPath", "/dev/null".to_owned()),
            ("core.askPass", String::new()),
            ("gc.auto", "0".to_owned()),
            ("maintenance.auto", "false".to_owned()),
            ("transfer.bundleURI", "false".to_owned()),
        ];
        // A number leads only to itself.
        if name.parse::<std::net::IpAddr>().is_err() {
            config.push(("http.curloptResolve", pinned));
        }
        let ca = self.settings.ca.as_ref().map(|path| path.to_string_lossy().into_owned());
        config.extend(ca.map(|path| ("http.sslCAInfo", path)));
        let home = repository.parent().unwrap_or(repository);
        let mut env: Vec<(OsString, OsString)> = vec![
            ("GIT_CONFIG_COUNT".into(), config.len().to_string().into()),
            ("HOME".into(), home.into()),
        ];
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ALLOW_PROTOCOL", "https"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("LC_ALL", "C"),
            ("LANGUAGE", ""),
        ] {
            env.push((name.into(), value.into()));
        }
        for (number, (key, value)) in config.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        env
    }

    /// That all went well, or why not, in the command's own words.
    fn well(&self, gave: &Gave) -> Result<()> {
        if gave.code == Some(0) {
            return Ok(());
        }
        let mut lines = gave.complaints.lines();
        let why = lines.find_map(|line| line.strip_prefix("fatal: "));
        Err(CallError::new(match why {
            Some(why) => format!("it cannot be fetched: {why}"),
            None => self.program.failure(gave),
        }))
    }
}

fn bracketed(address: &std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> u64 {
    let (mut all, mut folders) = (0, vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) => all += about.len(),
                Err(_) => (),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_repository_reference_and_path() {
        let asked = Asked::of("git+https://a.example/x/y.git#v1.0:docs/a%20b.md").unwrap();
        assert_eq!(asked.repository, "https://a.example/x/y.git");
        assert_eq!((asked.reference.as_str(), asked.path.as_str()), ("v1.0", "docs/a b.md"));
        assert_eq!(Asked::of("git+https://a.example/x#:a").unwrap().reference, "HEAD");
        for wrong in [
            "git+https://a.example/x",
            "git+https://a.example/x#main",
            "git+https://a.example/x#main:",
            "git+https://a.example/x#main:/etc/passwd",
            "git+https://a.example/x#main:../up",
            "git+https://a.example/x#main:a/%2e%2e/%2e%2e/up",
            "git+https://a.example/x#--upload-pack=sh:a",
            "git+https://a.example/x#a..b:a",
            "git+https://a.example/x#a b:a",
            "git+https://a.example/x#a%3Ab:a",
            "https://a.example/x#main:a",
        ] {
            assert!(Asked::of(wrong).is_err(), "{wrong}");
        }
    }
}
