//! The guides and the examples do what they say: Rust is compiled, and run unless it says `no_run`;
//! `sh` and `json` are run and read, flags of `console` exist, and every example runs.

use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use zcp_tests::{http::free_address, modern};

/// Lines an example may have.
const LONGEST: usize = 60;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the guides' demo is.
const DEMO: &str = "127.0.0.1:8787";

#[test]
fn a_block_says_how_it_is_checked() {
    let known = ["rust", "json", "sh", "console", "text"];
    let unknown = blocks().into_iter().filter(|block| !known.contains(&block.kind()));
    let complaints = unknown.map(|block| {
        let kinds = known.join(", ");
        format!("{}: `{}` is none of {kinds}", block.place, block.language)
    });
    all_well(complaints);
}

#[test]
fn rust_blocks_are_doc_tests() {
    let tested = read("tests/harness/guides.rs");
    let untested = blocks().into_iter().filter(|block| {
        let (guide, _) = block.place.split_once(':').expect("a place has a line");
        block.kind() == "rust" && !tested.contains(&format!("/{guide}\""))
    });
    let complaint = |block: Block| format!("{}: add the guide to guides.rs", block.place);
    all_well(untested.map(complaint));
}

#[test]
fn json_blocks_are_json() {
    let json = blocks().into_iter().filter(|block| block.kind() == "json");
    let wrong = json.filter_map(|block| {
        let error = serde_json::from_str::<Value>(&block.text).err()?;
        Some(format!("{}: {error}", block.place))
    });
    all_well(wrong);
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let (mut complaints, mut checked) = (vec![], 0);
    for guide in guides() {
        for (line, target) in links_of(&guide) {
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(&guide).parent().expect("a guide is in a folder");
            let path = match file {
                "" => PathBuf::from(&guide),
                _ => folder.join(file),
            };
            if !root().join(&path).exists() {
                complaints.push(format!("{guide}:{line}: there is no file `{file}`"));
            } else if !anchor.is_empty() && !anchors_of(&path).iter().any(|one| one == anchor) {
                let path = path.display();
                complaints.push(format!("{guide}:{line}: {path} has no heading `#{anchor}`"));
            }
        }
    }
    assert!(checked > 50, "{checked} links: are they still found?");
    all_well(complaints);
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    let anchors = |text| anchors_in(text).join(" ");
    assert_eq!(anchors("# HTTP: `/mcp`\n## Who, how & what_not\n"), "http-mcp who-how--what_not");
    assert_eq!(anchors("## Asking\n## [Asking](a.md)\n#no\n"), "asking asking-1");
    assert_eq!(anchors("```sh\n# no heading\n```\n### Über-all\n"), "über-all");
}

#[tokio::test]
async fn sh_blocks_run() {
    build().await;
    let (_demo, address) = demo().await;
    let mut complaints = vec![];
    for block in blocks().iter().filter(|block| block.kind() == "sh") {
        let script = block.text.replace(DEMO, &address);
        // They are built: `cargo run -p` would build them again, with other features.
        let script = script.replace("cargo run -q -p zcp --example ", "\"$PROGRAMS\"/examples/");
        if let Err(why) = bash(&script).await {
            complaints.push(format!("{}: {why}", block.place));
        }
    }
    all_well(complaints);
}

/// They serve for ever, or need another's program; what can be known is whether their flags parse.
#[tokio::test]
async fn console_blocks_have_flags_that_exist() {
    build().await;
    let mut complaints = vec![];
    for block in blocks().iter().filter(|block| block.kind() == "console") {
        for line in block.text.replace("\\\n", " ").lines() {
            let line = line.trim().trim_start_matches("$ ");
            let line = line.replace("cargo run --release -p zcp-cli -- ", "zcp ");
            let example = ["zcp", "zcp-gateway"].iter().find_map(|package| {
                line.strip_prefix(&format!("cargo run -p {package} --example "))
            });
            if let Some(example) = example {
                let name = example.split(' ').next().unwrap_or_default();
                if !root().join(format!("examples/{name}.rs")).exists() {
                    complaints.push(format!("{}: no example is called `{name}`", block.place));
                }
            }
            if !line.starts_with("zcp ") {
                continue;
            }
            if let Err(why) = bash(&format!("{line} --help")).await {
                complaints.push(format!("{}: {why}", block.place));
            }
        }
    }
    all_well(complaints);
}

#[test]
fn examples_are_short() {
    let long = examples().into_iter().filter_map(|example| {
        let lines = example.text.lines().count();
        let why = format!("{} has {lines} lines: {LONGEST} are enough", example.name);
        (lines > LONGEST).then_some(why)
    });
    all_well(long);
}

#[tokio::test]
async fn examples_that_serve_answer_and_the_others_end() {
    build().await;
    for example in examples() {
        if example.serves() {
            example.answers().await;
        } else {
            let ended = timeout(PATIENCE, example.command(&example.args()).output()).await;
            let output = ended.expect("it ends in time").expect("it starts");
            assert!(output.status.success(), "{}: {output:?}", example.name);
            assert!(!output.stdout.is_empty(), "{} shows nothing", example.name);
        }
    }
}

/// A block of code in a guide.
struct Block {
    /// File and line.
    place: String,
    language: String,
    text: String,
}

impl Block {
    /// The language without what follows it: `rust,no_run` is `rust`.
    fn kind(&self) -> &str {
        self.language.split(',').next().unwrap_or_default()
    }
}

/// Every guide, by its path in the repository.
fn guides() -> Vec<String> {
    let mut guides = vec!["README.md".to_owned()];
    guides.extend(files("docs", "md"));
    guides
}

/// The lines of a text that are not in a block of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The relative links of a guide, with their lines.
fn links_of(guide: &str) -> Vec<(usize, String)> {
    let text = read(guide);
    let links = prose(&text).flat_map(|(number, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        targets.map(move |target| (number, target.to_owned()))
    });
    links.filter(|(_, target)| !target.contains("://")).collect()
}

fn anchors_of(path: &Path) -> Vec<String> {
    anchors_in(&read(&path.display().to_string()))
}

/// What a text's headings are linked by: in lower case and without punctuation, spaces as hyphens,
/// the second of one name with `-1`.
fn anchors_in(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = vec![];
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        // Of a link, only the words are seen.
        let words = title.split("](").enumerate().map(|(place, part)| match place {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, after)| after),
        });
        let words = words.collect::<String>().trim().to_lowercase();
        let kept = |one: &char| one.is_alphanumeric() || " -_".contains(*one);
        let slug = words.chars().filter(kept).collect::<String>().replace(' ', "-");
        let mut anchor = slug.clone();
        let mut times = 0;
        while anchors.contains(&anchor) {
            times += 1;
            anchor = format!("{slug}-{times}");
        }
        anchors.push(anchor);
    }
    anchors
}

/// Every block of every guide.
fn blocks() -> Vec<Block> {
    let all: Vec<Block> = guides().iter().flat_map(|guide| blocks_of(guide)).collect();
    assert!(all.len() > 20, "the guides are full of blocks: were they moved?");
    all
}

fn blocks_of(guide: &str) -> Vec<Block> {
    let (mut found, mut open): (Vec<Block>, Option<Block>) = (vec![], None);
    for (number, line) in read(guide).lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let place = format!("{guide}:{}", number + 1);
                let (language, text) = (language.trim().to_owned(), String::new());
                open = Some(Block { place, language, text });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "{guide}: the last block does not end");
    found
}

/// A file of examples/.
struct Example {
    name: String,
    text: String,
}

fn examples() -> Vec<Example> {
    let named = |path: String| Example {
        text: read(&path),
        name: path.replace("examples/", "").replace(".rs", ""),
    };
    files("examples", "rs").into_iter().map(named).collect()
}

impl Example {
    fn serves(&self) -> bool {
        self.text.contains(".serve") || self.text.contains("::serve(")
    }

    /// What its first lines say it is run with.
    fn args(&self) -> Vec<String> {
        let package = if self.text.contains("zcp_gateway") { "zcp-gateway" } else { "zcp" };
        let command = format!("`cargo run -p {package} --example {}", self.name);
        let head = self.text.lines().take_while(|line| line.starts_with("//!"));
        let head = head.collect::<Vec<_>>().join("\n");
        let (_, rest) = head.split_once(&command).unwrap_or_else(|| {
            panic!("the first lines of {} must say {command}`", self.name);
        });
        let (args, _) = rest.split_once('`').expect("a command ends");
        args.split_whitespace().skip_while(|word| *word == "--").map(str::to_owned).collect()
    }

    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(programs().join("examples").join(&self.name));
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Starts it as it says, on addresses nobody else uses, and asks it who it is on each wire.
    async fn answers(&self) {
        let socket = scratch(&format!("{}.sock", self.name));
        let (mut args, mut address) = (self.args(), None);
        for place in 0..args.len() {
            if args[place].parse::<SocketAddr>().is_ok() {
                args[place] = free_address().to_string();
                address = Some(args[place].clone());
            } else if place > 0 && args[place - 1] == "--unix" {
                args[place] = socket.display().to_string();
            }
        }
        let mut child = self.command(&args).spawn().expect("it starts");
        let begins = ["Server::new(\"", "server!(\""];
        let named = begins.iter().find_map(|begin| self.text.split_once(begin));
        let name = named.and_then(|(_, rest)| rest.split('"').next());
        let name = name.expect("its server has a name");
        if self.text.contains("Stdio") {
            assert_eq!(who_on_stdio(&mut child).await, name, "{} on stdio", self.name);
        }
        if let Some(address) = &address {
            let url = format!("http://{address}/mcp");
            assert_eq!(who_on_http(&reqwest::Client::new(), &url).await, name, "{url}");
        }
        if args.contains(&socket.display().to_string()) {
            let client = reqwest::Client::builder().unix_socket(socket.clone());
            let client = client.build().expect("the client has no mistakes");
            assert_eq!(who_on_http(&client, "http://localhost/mcp").await, name, "{socket:?}");
        }
        drop(child.stdin.take());
        if address.is_none() {
            let ended = timeout(PATIENCE, child.wait()).await.expect("the end of input ends it");
            assert!(ended.expect("it was started").success(), "{} ends well", self.name);
        }
        // Ended by force, it cannot tidy up.
        let _ = fs::remove_file(socket);
    }
}

/// The name a server gives on its standard output.
async fn who_on_stdio(child: &mut Child) -> String {
    let line = format!("{}\n", modern(1, "server/discover", json!({})));
    let input = child.stdin.as_mut().expect("it is piped");
    input.write_all(line.as_bytes()).await.expect("it reads");
    let mut output = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    let line = timeout(PATIENCE, output.next_line()).await.expect("it answers in time");
    who(&line.expect("it is text").expect("it answers"))
}

/// The name a server gives over HTTP, once it is there.
async fn who_on_http(client: &reqwest::Client, url: &str) -> String {
    let message = modern(1, "server/discover", json!({})).to_string();
    for _ in 0..200 {
        let post = client.post(url).body(message.clone());
        let post = post.header("content-type", "application/json");
        let post = post.header("mcp-protocol-version", "2026-07-28");
        if let Ok(answer) = post.header("mcp-method", "server/discover").send().await {
            return who(&answer.text().await.expect("the body arrives"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody is at {url}");
}

fn who(answer: &str) -> String {
    let answer: Value = serde_json::from_str(answer).expect("an answer is JSON");
    let info = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    info["name"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Builds the command and the examples, as `cargo test --workspace` does.
async fn build() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--workspace", "--bins", "--examples"]);
    let built = cargo.current_dir(root()).output().await.expect("cargo starts");
    assert!(built.status.success(), "{}", said(&built));
}

/// The demo, where the guides say it is, or where there is room.
async fn demo() -> (Child, String) {
    for address in [DEMO, "127.0.0.1:0"] {
        let mut zcp = Command::new(programs().join("zcp"));
        zcp.args(["serve", "--json", "--http", address]);
        zcp.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = zcp.spawn().expect("zcp starts");
        let mut output = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        let line = timeout(PATIENCE, output.next_line()).await.expect("it speaks in time");
        // It says nothing when the address is taken.
        if let Some(line) = line.expect("it is text") {
            let line: Value = serde_json::from_str(&line).expect("it speaks JSON");
            let url = line["mcp"].as_str().expect("it says where it is");
            let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
            return (child, address.to_owned());
        }
    }
    panic!("the demo does not start");
}

/// Runs a script in the repository, with `zcp` at hand; the first command that fails ends it.
async fn bash(script: &str) -> Result<(), String> {
    let script = format!("PATH=\"$PROGRAMS:$PATH\"\n{script}");
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &script]).env("PROGRAMS", programs());
    bash.current_dir(root()).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(PATIENCE, bash.output()).await {
        Err(_) => Err("it does not end: mark it ```console if it should not".into()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(format!("{}\n{}", output.status, said(&output))),
    }
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent")
}

/// Where cargo puts what it builds.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug")
}

/// A path for this process alone, short enough for a socket.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("zcp-docs-{}-{name}", std::process::id()))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a kind in a folder, by their paths in the repository.
fn files(folder: &str, kind: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of the repository");
    let names = entries.map(|entry| entry.expect("it can be read").file_name());
    let names = names.map(|name| format!("{folder}/{}", name.to_string_lossy()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(&format!(".{kind}"))).collect();
    names.sort();
    names
}

fn all_well(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
