//! The command in a terminal: what a person is shown and asked.

use pty_process::{Command, Pts, Pty, Size};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
};
use zcp::{Ctx, Result, Server, Visit, tool};
use zcp_tests::{
    examples::{examples, zcp},
    folder::Folder,
    http::HttpServer,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What you would like.
    dish: String,
    /// How many.
    portions: u32,
}

/// Order a meal.
#[tool]
async fn order(ctx: Ctx) -> Result<String> {
    let wish = ctx.ask::<Order>("order", "What may we cook?").await?.accepted()?;
    Ok(format!("{} × {}", wish.portions, wish.dish))
}

/// Pay for it.
#[tool]
async fn pay(ctx: Ctx) -> Result<String> {
    let page = "https://xn--bnk-0na.example/pay?bill=17";
    ctx.visit("pay", &Visit::new("Please pay.", page)).await?.accepted()?;
    Ok("paid".to_owned())
}

/// A person at a terminal.
struct Person {
    terminal: Pty,
    child: Child,
    seen: String,
}

impl Person {
    fn new(folder: &Folder, args: &[&str]) -> Self {
        let (terminal, other): (Pty, Pts) = pty_process::open().expect("a terminal");
        terminal.resize(Size::new(24, 200)).expect("it has a size");
        let child = Command::new(zcp())
            .args(args)
            .current_dir(&folder.0)
            .env("XDG_DATA_HOME", &folder.0)
            .env("XDG_CACHE_HOME", &folder.0)
            .env("HOME", &folder.0)
            .env("BROWSER", folder.0.join("browser"))
            .kill_on_drop(true)
            .spawn(other)
            .expect("it starts");
        Self { terminal, child, seen: String::new() }
    }

    /// Waits until words are seen.
    async fn sees(&mut self, words: &str) {
        let reading = async {
            while !self.seen.contains(words) {
                let mut some = [0; 4096];
                match self.terminal.read(&mut some).await {
                    Ok(0) | Err(_) => return false,
                    Ok(count) => self.seen += &String::from_utf8_lossy(&some[..count]),
                }
            }
            true
        };
        let seen = tokio::time::timeout(Duration::from_secs(20), reading).await;
        assert_eq!(seen, Ok(true), "`{words}` is not in: {}", self.seen);
        let end = self.seen.find(words).expect("it was seen") + words.len();
        self.seen.drain(..end);
    }

    async fn types(&mut self, line: &str) {
        self.terminal.write_all(format!("{line}\n").as_bytes()).await.expect("it is read");
    }

    async fn ends(mut self) -> i32 {
        let draining = async {
            let mut some = [0; 4096];
            while self.terminal.read(&mut some).await.is_ok_and(|count| count > 0) {}
        };
        let (status, ()) = tokio::join!(self.child.wait(), draining);
        status.expect("it ended").code().expect("by itself")
    }
}

/// A folder with a browser that tells when it was started.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    let browser = folder.0.join("browser");
    fs::write(&browser, "#!/bin/sh\ntouch \"$0.started\"\n").expect("it can be written");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).expect("it is ours");
    folder
}

#[tokio::test]
async fn a_form_says_who_asks_and_is_reviewed_before_it_goes() {
    let (server, folder) =
        (HttpServer::new(Server::new("meals").tool(order)).await, folder("form"));
    let url = server.url("/mcp");
    for (answer, code, outcome) in [("", 0, "3 × soup"), ("n", 3, "declined"), ("c", 3, "closed")]
    {
        let mut person = Person::new(&folder, &["call", &url, "order"]);
        person.sees(&format!("{url} asks: What may we cook?")).await;
        person.sees("What you would like.").await;
        person.types("").await;
        person.sees("This is needed").await;
        person.sees("What you would like.").await;
        person.types("soup").await;
        person.sees("How many.").await;
        person.types("3").await;
        person.sees(&format!("This goes to {url}: ")).await;
        person.sees(r#""dish":"soup""#).await;
        person.sees("Send it? ").await;
        person.types("nope").await;
        person.sees("Please answer y, n or c.").await;
        person.types(answer).await;
        person.sees(outcome).await;
        assert_eq!(person.ends().await, code, "{answer}");
    }
}

#[tokio::test]
async fn a_page_is_shown_whole_and_never_opened() {
    let (server, folder) = (HttpServer::new(Server::new("bank").tool(pay)).await, folder("page"));
    let url = server.url("/mcp");
    for (answer, code) in [("n", 3), ("", 3), ("y", 0)] {
        let mut person = Person::new(&folder, &["call", &url, "pay"]);
        person.sees(&format!("{url} asks: Please pay.")).await;
        person.sees("https://xn--bnk-0na.example/pay?bill=17").await;
        person.sees("It belongs to").await;
        person.sees("xn--bnk-0na.example").await;
        person.sees("may look like another's").await;
        person.sees("Do you go there? [y/N]").await;
        person.types(answer).await;
        assert_eq!(person.ends().await, code, "{answer}");
    }
    assert!(!folder.0.join("browser.started").exists());
}

#[tokio::test]
async fn a_projects_command_is_started_when_its_user_has_agreed() {
    let folder = folder("agreed");
    let everything = examples().join("everything");
    let write = |args: &[&str]| {
        let server = json!({ "command": everything, "args": args });
        let file = json!({ "mcpServers": { "local": server } });
        fs::write(folder.0.join(".mcp.json"), file.to_string()).expect("it can be written");
    };
    write(&["--stdio"]);
    // Nobody can be asked.
    let mut alone = tokio::process::Command::new(zcp());
    alone.args(["ping", "local"]).current_dir(&folder.0).env("HOME", &folder.0);
    alone.env("XDG_DATA_HOME", &folder.0).env("XDG_CACHE_HOME", &folder.0);
    let refused = alone.stdin(std::process::Stdio::null()).output().await.expect("it runs");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(words.contains("everything --stdio\nlook at it, and add --agree to use it"), "{words}");
    assert!(alone.arg("--agree").output().await.expect("it runs").status.success());

    let mut person = Person::new(&folder, &["ping", "local"]);
    person.sees("`local` of .mcp.json starts this command:").await;
    person.sees("everything --stdio").await;
    person.types("").await;
    assert_eq!(person.ends().await, 2, "no is the usual answer");
    let mut person = Person::new(&folder, &["ping", "local"]);
    person.sees("Use it, now and from now on? [y/N]").await;
    person.types("y").await;
    assert_eq!(person.ends().await, 0);
    let mut person = Person::new(&folder, &["ping", "local"]);
    person.sees("speaks 2026-07-28").await;
    assert_eq!(person.ends().await, 0, "nobody is asked twice");
    // A URL is somebody else's too, and what stands for something is not filled in to be shown.
    let far = json!({ "url": "http://127.0.0.1:9/?k=${HOME}", "headers": { "X": "${PATH}" } });
    let file = json!({ "mcpServers": { "far": far } });
    fs::write(folder.0.join(".mcp.json"), file.to_string()).expect("it can be written");
    let mut person = Person::new(&folder, &["ping", "far"]);
    person.sees("http://127.0.0.1:9/?k=${HOME}").await;
    person.sees("with X ${PATH}").await;
    person.sees("[y/N]").await;
    person.types("n").await;
    assert_eq!(person.ends().await, 2);
    write(&["--stdio", "--and-more"]);
    let mut person = Person::new(&folder, &["ping", "local"]);
    person.sees("--and-more").await;
    person.sees("[y/N]").await;
    person.types("n").await;
    assert_eq!(person.ends().await, 2, "it is another command");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sure {
    /// Whether it goes on.
    sure: bool,
}

/// Deploy it.
#[tool]
async fn deploy(ctx: Ctx) -> Result<String> {
    let sure = ctx.ask::<Sure>("sure", "Really deploy to staging?").await?.accepted()?;
    Ok(if sure.sure { "deployed" } else { "left alone" }.to_owned())
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let server = HttpServer::new(Server::new("deploys").tool(deploy)).await;
    let (folder, url) = (folder("yes-or-no"), server.url("/mcp"));
    let mut person = Person::new(&folder, &["call", &url, "deploy"]);
    person.sees("[y/n]: ").await;
    person.types("maybe").await;
    person.sees("answer y or n").await;
    person.sees("[y/n]: ").await;
    person.types("y").await;
    person.sees("Send it? ").await;
    person.types("").await;
    person.sees("deployed").await;
    assert_eq!(person.ends().await, 0);
}

#[tokio::test]
async fn ctrl_c_at_a_question_ends_the_command() {
    let server = HttpServer::new(Server::new("deploys").tool(deploy)).await;
    let (folder, url) = (folder("stopped"), server.url("/mcp"));
    let mut person = Person::new(&folder, &["call", &url, "deploy"]);
    person.sees("[y/n]: ").await;
    person.terminal.write_all(b"\x03").await.expect("it is read");
    person.sees("interrupted").await;
    assert!(!person.seen.contains("This goes to"), "{}", person.seen);
    assert_eq!(person.ends().await, 130);
}

#[tokio::test]
async fn a_folder_asks_by_its_name() {
    let folder = folder("asks-by-name");
    let script = "# Deploys it.\n. \"$ZCP_SDK/zcp.sh\"\nzcp_ask sure 'Really?' '{\"type\":\"object\",\"properties\":{\"sure\":{\"type\":\"boolean\"}}}'\n";
    fs::create_dir_all(folder.0.join("kit/tools")).expect("it can be made");
    fs::write(folder.0.join("kit/tools/deploy.sh"), script).expect("it can be written");
    let kit = folder.0.join("kit");
    let alone = |more: &[&str]| {
        let mut command = std::process::Command::new(zcp());
        command.args(["run", "deploy"]).args(more).current_dir(&kit).env("HOME", &folder.0);
        let done = command.stdin(std::process::Stdio::null()).output().expect("it runs");
        [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let [_, told] = alone(&[]);
    let words = "kit asked `Really?`; there is no terminal, so it was declined";
    assert!(told.contains(words) && told.contains(r#"--answer '{"sure":true}'"#), "{told}");
    let [out, told] = alone(&["--answer", r#"{"sure":true}"#]);
    assert!(out.contains("true") && !told.contains("declined"), "{out} {told}");
}

#[tokio::test]
async fn health_is_words_on_a_terminal() {
    let folder = folder("health-words");
    fs::create_dir_all(folder.0.join("tools")).expect("it can be made");
    fs::write(folder.0.join("tools/a.sh"), "# Says a.\necho a\n").expect("it can be written");
    let mut person = Person::new(&folder, &["health"]);
    person.sees("1 tool, 0 resources, 0 prompts").await;
    assert!(!person.seen.contains("jsonTool"), "{}", person.seen);
    assert_eq!(person.ends().await, 0);
}
