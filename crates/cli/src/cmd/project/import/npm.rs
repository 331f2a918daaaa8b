//! The scripts of a package.json.

use super::{
    draft::{Imported, Tool},
    make::bare,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What is left alone whoever quotes it, and however badly.
const HARMLESS: &str = r#"^[^\x00-\x1f"$`\\!%]*$"#;
/// What is run on occasions, and not by people.
const OCCASIONS: [&str; 8] = [
    "install",
    "prepare",
    "prepublish",
    "prepublishOnly",
    "prepack",
    "postpack",
    "dependencies",
    "version",
];

/// What runs the scripts of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    Npm,
    Pnpm,
    /// Yarn 1, which talks unless it is told not to.
    OldYarn,
    Yarn,
    Bun,
}

impl Runner {
    /// What a package says it uses, or what has left its lock file.
    pub(super) fn of(package: &Value, folder: &Path) -> Self {
        let said = package["packageManager"].as_str().unwrap_or_default();
        let has = |name: &str| folder.join(name).exists();
        match said.split_once('@') {
            Some(("npm", _)) => Self::Npm,
            Some(("pnpm", _)) => Self::Pnpm,
            Some(("yarn", version)) if version.starts_with("1.") => Self::OldYarn,
            Some(("yarn", _)) => Self::Yarn,
            Some(("bun", _)) => Self::Bun,
            _ if has("pnpm-lock.yaml") => Self::Pnpm,
            _ if has("bun.lock") || has("bun.lockb") => Self::Bun,
            _ if has("yarn.lock") && has(".yarnrc.yml") => Self::Yarn,
            _ if has("yarn.lock") => Self::OldYarn,
            _ => Self::Npm,
        }
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["npm", "run", "-s"],
            Self::Pnpm => &["pnpm", "--silent", "run"],
            Self::OldYarn => &["yarn", "-s", "run"],
            Self::Yarn => &["yarn", "run"],
            Self::Bun => &["bun", "run", "--silent"],
        }
    }

    /// What its arguments may be.
    fn harmless(self) -> &'static str {
        match self {
            // It once gave them to a shell as they were.
            Self::Bun => super::make::HARMLESS,
            _ => HARMLESS,
        }
    }

    /// What stands between a script's name and its arguments.
    fn between(self) -> &'static str {
        match self {
            Self::Npm => " --",
            // They give it to the script.
            _ => "",
        }
    }
}

/// The tools a package makes.
pub(super) fn import(scripts: &Map<String, Value>, runner: Runner, cwd: &str) -> Imported {
    let mut imported = Imported::default();
    for (name, line) in scripts {
        let Some(line) = line.as_str() else { continue };
        let hook = name.strip_prefix("pre").or_else(|| name.strip_prefix("post"));
        let is_hook = hook.is_some_and(|of| scripts.contains_key(of) || OCCASIONS.contains(&of));
        if is_hook || OCCASIONS.contains(&name.as_str()) {
            imported.left_out.push((name.clone(), "it is run on occasions".to_owned()));
            continue;
        }
        let is_odd = |c: char| c.is_control() || "{}".contains(c);
        if name.is_empty() || name.starts_with('-') || name.contains(is_odd) {
            imported.left_out.push((name.clone(), "its name is no plain word".to_owned()));
            continue;
        }
        imported.tools.push(tool(name, line, runner, cwd));
    }
    imported
}

fn tool(name: &str, line: &str, runner: Runner, cwd: &str) -> Tool {
    let command = shell_words::join(runner.words().iter().chain(&["{no-file}"]));
    let mut tags = vec![
        format!("command {}", bare(&command)),
        format!("args {}{} {{args...}}", shell_words::quote(name), runner.between()),
    ];
    if cwd != "." {
        tags.push(format!("cwd {cwd}"));
    }
    let args = json!({
        "type": "array",
        "items": { "type": "string", "pattern": runner.harmless() },
        "description": "More words for its command line.",
    });
    Tool {
        source: name.to_owned(),
        about: format!("{} {name}", runner.words().join(" ")),
        name: name.to_owned(),
        ending: "sh",
        description: format!("Runs the script `{name}` of package.json: {line}"),
        tags,
        properties: Map::from_iter([("args".to_owned(), args)]),
        ..Tool::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_tools_and_hooks_are_not() {
        let scripts = json!({
            "prebuild": "x", "build": "tsc\n@env HOME", "postinstall": "y", "pretty": "prettier",
            "prepare": "z", "test:unit it's": "node --test", "-x": "", "a\nb": "",
        });
        let imported = import(scripts.as_object().unwrap(), Runner::Npm, "..");
        let names: Vec<_> = imported.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["build", "pretty", "test:unit it's"]);
        assert_eq!(imported.tools[0].tags[0], "command npm run -s {no-file}");
        assert_eq!(imported.tools[0].tags[1], "args build -- {args...}");
        assert_eq!(imported.tools[2].tags[1], r"args 'test:unit it'\''s' -- {args...}");
        let yarn = import(scripts.as_object().unwrap(), Runner::Yarn, ".");
        assert_eq!(yarn.tools[0].tags, ["command yarn run {no-file}", "args build {args...}"]);
    }

    #[test]
    fn a_package_says_what_runs_it() {
        let nowhere = Path::new("/nowhere");
        for (said, runner) in [
            ("pnpm@9.1.0", Runner::Pnpm),
            ("yarn@1.22.0", Runner::OldYarn),
            ("yarn@4.0.0", Runner::Yarn),
            ("bun@1.1", Runner::Bun),
            ("", Runner::Npm),
        ] {
            assert_eq!(Runner::of(&json!({ "packageManager": said }), nowhere), runner, "{said}");
        }
    }
}
