//! How a file is started: by itself, by the interpreter its first line names, or by the one its
//! name is known to need.

use crate::call_files;
use std::path::{Path, PathBuf};

/// The programs that run files of an ending: the first that is there does.
const BY_ENDING: &[(&str, &[&[&str]])] = &[
    ("sh", &[&["bash"], &["sh"]]),
    ("bash", &[&["bash"]]),
    ("zsh", &[&["zsh"]]),
    ("fish", &[&["fish"]]),
    ("py", &[&["python3"], &["python"], &["py", "-3"]]),
    ("js", &[&["node"], &["bun"], &["deno", "run", "-A"]]),
    ("mjs", &[&["node"], &["bun"], &["deno", "run", "-A"]]),
    ("cjs", &[&["node"], &["bun"]]),
    ("ts", &[&["tsx"], &["bun"], &["deno", "run", "-A"], &["node", "--experimental-strip-types"]]),
    ("rb", &[&["ruby"]]),
    ("pl", &[&["perl"]]),
    ("php", &[&["php"]]),
    ("lua", &[&["lua"], &["luajit"]]),
    ("r", &[&["Rscript"]]),
    ("jl", &[&["julia"]]),
    ("tcl", &[&["tclsh"]]),
    ("nu", &[&["nu"]]),
    ("exs", &[&["elixir"]]),
    ("raku", &[&["raku"]]),
    ("clj", &[&["bb"], &["clojure"]]),
    ("go", &[&["go", "run"]]),
    ("awk", &[&["awk", "-f"]]),
    (
        "ps1",
        &[
            &["pwsh", "-NoProfile", "-NonInteractive", "-File"],
            &["powershell", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File"],
        ],
    ),
];

/// The ending of files that say a request, which the `zcp` command makes.
const REQUEST: &str = "http";

/// Files that are never started, even where every file counts as executable.
const NO_PROGRAMS: &[&str] = &[
    "md", "txt", "json", "jsonc", "toml", "yaml", "yml", "lock", "ini", "cfg", "conf", "csv",
    "tsv", "html", "css", "map", "svg", "png", "jpg", "jpeg", "gif", "webp", "ico", "pdf", "xml",
    "log", "pyc", "class", "o", "a", "so", "dll", "dylib", "zip", "gz", "tar", "sqlite", "db",
    "bak", "example",
];

/// The system a file is started on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Unix,
    Windows,
}

impl System {
    pub(crate) const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };
}

/// What is known of a file before it is started.
#[derive(Debug, Clone)]
pub(crate) struct Known<'a> {
    pub(crate) path: &'a Path,
    /// Its permission to be executed, where there is such a thing.
    pub(crate) executable: bool,
    /// How it begins.
    pub(crate) head: &'a [u8],
}

/// How a file is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// As a program.
    Itself,
    /// By one of these programs, with words before the file's name: the first that is there.
    By(Vec<Vec<String>>),
    /// By the `zcp` command: the file says a request.
    Request,
}

impl Known<'_> {
    fn ending(&self) -> String {
        let ending = self.path.extension().and_then(|ending| ending.to_str());
        ending.unwrap_or_default().to_lowercase()
    }

    /// How it is started on a system; nothing if it is no program.
    pub(crate) fn start(&self, system: System) -> Option<Start> {
        let ending = self.ending();
        let shebang = shebang(self.head);
        if shebang.is_none() && NO_PROGRAMS.contains(&ending.as_str()) {
            return None;
        }
        if ending == REQUEST {
            return Some(Start::Request);
        }
        let by_ending = || {
            let (_, programs) = BY_ENDING.iter().find(|(known, _)| *known == ending)?;
            let words = |words: &&[&str]| words.iter().map(|&word| word.to_owned()).collect();
            Some(Start::By(programs.iter().map(words).collect()))
        };
        if system == System::Windows {
            return match ending.as_str() {
                "exe" | "com" => Some(Start::Itself),
                "bat" | "cmd" => {
                    Some(Start::By(vec![["cmd.exe", "/d", "/c"].map(str::to_owned).to_vec()]))
                }
                _ => by_ending().or_else(|| shebang.map(|words| Start::By(vec![words]))),
            };
        }
        let is_bash = shebang.as_ref().is_some_and(|words| is_bash(Path::new(&words[0])));
        let is_started = !is_missing(self.head) && (shebang.is_some() || is_binary(self.head));
        if self.executable && is_started && !is_bash {
            return Some(Start::Itself);
        }
        // A script without the permission is run by what its first line says, not by a shell. So is
        // one whose program is elsewhere on this machine.
        if let Some(words) = shebang {
            return Some(Start::By(vec![words]));
        }
        by_ending().or_else(|| {
            let plain = self.executable && !self.head.is_empty() && !self.head.contains(&0);
            plain.then(|| Start::By(vec![vec!["sh".to_owned()]]))
        })
    }
}

/// The words of a first line such as `#!/usr/bin/env -S node --no-warnings`, the program by its name.
fn shebang(head: &[u8]) -> Option<Vec<String>> {
    let mut words = first_line(head)?;
    let first = Path::new(words.first()?).file_name()?.to_str()?.to_owned();
    if first == "env" {
        words.remove(0);
        while words.first().is_some_and(|word| word == "-S" || word.contains('=')) {
            words.remove(0);
        }
        return (!words.is_empty()).then_some(words);
    }
    // Where it is usually installed differs from machine to machine; its name does not.
    if is_missing(head) && is_usual(Path::new(&words[0])) {
        words[0] = first;
    }
    Some(words)
}

/// The words of a first line as they are.
fn first_line(head: &[u8]) -> Option<Vec<String>> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    Some(line.split_whitespace().map(str::to_owned).collect())
}

/// Whether the program that a first line names is not there.
fn is_missing(head: &[u8]) -> bool {
    let words = first_line(head).unwrap_or_default();
    words.first().is_some_and(|program| !Path::new(program).exists())
}

/// Where systems and their package managers install programs. One that is missing there is found by
/// its name; any other path means this one program.
const USUAL: [&str; 8] = [
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/opt/local/bin",
    "/usr/pkg/bin",
    "/run/current-system/sw/bin",
    "",
];

fn is_usual(program: &Path) -> bool {
    program.parent().is_some_and(|folder| USUAL.iter().any(|usual| folder == Path::new(usual)))
}

/// The program that a first line names where systems have it, if it is missing there: another one of
/// that name runs the script.
pub(crate) fn missing(head: &str) -> Option<String> {
    let program = first_line(head.as_bytes())?.into_iter().next()?;
    (is_missing(head.as_bytes()) && is_usual(Path::new(&program))).then_some(program)
}

/// Whether a script leaves it to the machine what runs it: it has no first line of its own, or one
/// like `#!/usr/bin/env python3` that names a usual program for its ending.
pub(super) fn leaves_open(ending: &str, head: &[u8]) -> bool {
    let Some(words) = first_line(head) else { return true };
    let [env, program] = words.as_slice() else { return false };
    let usual = BY_ENDING.iter().find(|(known, _)| *known == ending);
    let is_usual = usual.is_some_and(|(_, all)| all.iter().any(|words| words == &[program]));
    is_usual && Path::new(env).file_name().is_some_and(|name| name == "env")
}

/// How bash is told to read a script whole before it begins: otherwise it reads as it goes, and one
/// that is changed while it runs would go on with a mixture of both.
const READ_WHOLE: [&str; 2] = ["-c", r#". "$0""#];
/// What a script can tell the difference by.
const TELLS: [&str; 5] = ["(return", "FUNCNAME", "BASH_SOURCE[1", "BASH_SOURCE[@", "caller"];

fn is_bash(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "bash")
}

/// The longest script that is looked through.
const LONGEST: u64 = 1024 * 1024;

fn can_be_read_whole(script: &Path) -> bool {
    let text = call_files::read_text(script, LONGEST);
    text.is_ok_and(|text| !TELLS.iter().any(|one| text.contains(one)))
}

/// Compiled programs of the usual systems.
fn is_binary(head: &[u8]) -> bool {
    const STARTS: [&[u8]; 6] = [
        b"\x7fELF",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"MZ",
    ];
    STARTS.iter().any(|start| head.starts_with(start))
}

/// The program and its first words: the `zcp` command, or one found where the environment's `PATH`
/// says.
pub(crate) fn resolve(
    start: &Start,
    file: &Path,
    path: &std::ffi::OsStr,
    command: Option<&Path>,
) -> Result<(PathBuf, Vec<String>), String> {
    let programs = match start {
        Start::Itself => {
            return is_there(file, path).map(|()| (file.to_path_buf(), vec![]));
        }
        Start::By(programs) => programs,
        Start::Request => {
            let command = command.ok_or("it says a request, which needs the `zcp` command")?;
            let words = vec!["http".to_owned(), file.to_string_lossy().into_owned()];
            return Ok((command.to_path_buf(), words));
        }
    };
    for words in programs {
        let (program, rest) = words.split_first().ok_or("an interpreter without a name")?;
        if let Ok(found) = which::which_in(program, Some(path), ".") {
            let mut rest = rest.to_vec();
            if is_bash(&found) && can_be_read_whole(file) {
                rest.extend(READ_WHOLE.map(str::to_owned));
            }
            rest.push(file.to_string_lossy().into_owned());
            return Ok((found, rest));
        }
    }
    if let [words] = &programs[..]
        && let Some(program) = words.first().filter(|one| Path::new(one).is_absolute())
    {
        return Err(format!(
            "it is to be run by {program}, which is not there: correct its first line or \
             `[interpreters]`, or name another `command`"
        ));
    }
    let names: Vec<_> = programs.iter().filter_map(|words| words.first()).collect();
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    tracing::debug!("{names} is not in PATH: {}", path.to_string_lossy());
    Err(format!("it needs {names}, which is not in PATH: install it, or say another `command`"))
}

/// Whether what the first line of a file names can run it.
fn is_there(file: &Path, path: &std::ffi::OsStr) -> Result<(), String> {
    use std::io::Read;
    let mut head = vec![];
    let _ = call_files::open_regular(file).map(|file| file.take(256).read_to_end(&mut head));
    let Some(words) = shebang(&head) else { return Ok(()) };
    if head.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r")) {
        return Err("its lines end as on Windows, and its first line names no program so: \
                    write it with plain line ends"
            .to_owned());
    }
    match which::which_in(&words[0], Some(path), ".") {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("it needs `{}`, which is not in PATH: install it", words[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(name: &str, executable: bool, head: &str, system: System) -> Option<Start> {
        Known { path: Path::new(name), executable, head: head.as_bytes() }.start(system)
    }

    fn first(start: Option<Start>) -> String {
        match start {
            None => "none".into(),
            Some(Start::Itself) => "itself".into(),
            Some(Start::By(programs)) => programs[0].join(" "),
            Some(Start::Request) => "request".into(),
        }
    }

    #[test]
    fn on_unix_the_first_line_decides_then_the_ending() {
        use System::Unix;
        let cases = [
            ("a.py", true, "#!/usr/bin/env python3\n", "itself"),
            ("a.py", false, "#!/usr/bin/env python3\n", "python3"),
            ("a.py", false, "import sys\n", "python3"),
            ("a.py", true, "import sys\n", "python3"),
            ("a", false, "#!/usr/bin/env -S node --no-warnings\n", "node --no-warnings"),
            ("a", false, "#!/opt/local/bin/ruby -w\n", "ruby -w"),
            ("a", true, "#!/opt/local/bin/ruby -w\n", "ruby -w"),
            ("a.rb", true, "#!/nowhere/bin/ruby -w\n", "/nowhere/bin/ruby -w"),
            ("a", true, "\x7fELF", "itself"),
            ("a", true, "#!/usr/bin/env bash\n", "bash"),
            ("a", true, "echo hi\n", "sh"),
            ("a", false, "hello\n", "none"),
            ("README.md", true, "# Hello\n", "none"),
            ("data.json", true, "{}", "none"),
            ("a.sh", false, "echo hi\n", "bash"),
            ("a.http", false, "GET https://a.example\n", "request"),
            ("a.http", true, "GET https://a.example\n", "request"),
            ("a.PS1", false, "1\n", "pwsh -NoProfile -NonInteractive -File"),
        ];
        for (name, executable, head, expected) in cases {
            assert_eq!(first(start(name, executable, head, Unix)), expected, "{name} {head}");
        }
    }

    #[test]
    fn on_windows_the_ending_decides_then_the_first_line() {
        use System::Windows;
        let cases = [
            ("a.exe", "MZ", "itself"),
            ("a.bat", "@echo off\r\n", "cmd.exe /d /c"),
            ("a.CMD", "@echo off\r\n", "cmd.exe /d /c"),
            ("a.ps1", "param()\r\n", "pwsh -NoProfile -NonInteractive -File"),
            ("a.py", "#!/usr/bin/env python3\r\n", "python3"),
            ("a.http", "GET https://a.example\r\n", "request"),
            ("a", "#!/usr/bin/env ruby\r\n", "ruby"),
            ("a", "hello", "none"),
            ("notes.txt", "hello", "none"),
        ];
        for (name, head, expected) in cases {
            assert_eq!(first(start(name, false, head, Windows)), expected, "{name}");
        }
        let Some(Start::By(programs)) = start("a.py", false, "", Windows) else {
            panic!("no python")
        };
        assert!(programs.contains(&vec!["py".to_owned(), "-3".to_owned()]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let start = Start::By(vec![vec!["no-such-program".into()], vec!["nor-this".into()]]);
        let why =
            resolve(&start, Path::new("a.x"), "/nowhere".as_ref(), None).expect_err("missing");
        assert!(why.contains("`no-such-program` or `nor-this`"), "{why}");
    }

    #[test]
    fn a_request_is_made_by_the_command() {
        let (file, none) = (Path::new("a.http"), "".as_ref());
        let why = resolve(&Start::Request, file, none, None).expect_err("no command");
        assert!(why.contains("needs the `zcp` command"), "{why}");
        let made = resolve(&Start::Request, file, none, Some(Path::new("/bin/zcp")));
        let words = vec!["http".to_owned(), "a.http".to_owned()];
        assert_eq!(made, Ok(("/bin/zcp".into(), words)));
    }
}
