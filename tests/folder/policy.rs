//! The policy of a folder: what may be called, who is asked, and what is written down.

use serde_json::{Value, json};
use std::{
    fs,
    time::{Duration, Instant},
};
use zcp_scripts::{Outcome, Scripts};
use zcp_tests::{
    all_capabilities, call,
    folder::Folder,
    initialize, modern_as, notification,
    pipe::PipeClient,
    request, response,
    script::{LAST, open, result, until, write},
    text,
};

/// A tool that leaves a trace.
const TOOL: &str = "# Writes.\n# @param [path] string\n# @param mode string = keep\necho ran >> ran\necho \"wrote $ARG_PATH\"";
const READS: &str = "# Reads.\n# @read-only\necho read";

fn folder(name: &str, policy: &str) -> Folder {
    let folder = Folder::new(name);
    write(&folder, "tools/write.sh", TOOL);
    write(&folder, "tools/read.sh", READS);
    write(&folder, "policy.toml", policy);
    folder
}

fn runs(folder: &Folder) -> usize {
    fs::read_to_string(folder.0.join("ran")).unwrap_or_default().lines().count()
}

fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

async fn listed(client: &mut PipeClient) -> Vec<String> {
    names(&client.ask(request(90, "tools/list", json!({}))).await)
}

/// A client of the last handshake that calls itself something, and can do some things.
async fn named(scripts: Scripts, name: &str, capabilities: Value) -> PipeClient {
    let mut client = PipeClient::new(scripts.server());
    let params = json!({ "protocolVersion": LAST, "capabilities": capabilities,
        "clientInfo": { "name": name, "version": "1" } });
    client.ask(request(0, "initialize", params)).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    client
}

/// The same name, with every request.
fn modern_named(name: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] =
        json!({ "io.modelcontextprotocol/clientInfo": { "name": name, "version": "1" } });
    modern_as(1, "tools/call", params, json!({}))
}

fn lines(folder: &Folder, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.0.join(name)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

#[tokio::test]
async fn rules_tell_clients_tools_and_arguments_apart_in_both_eras() {
    let folder = folder(
        "policy-rules",
        r#"
        [[rules]]
        client = "careful-*"
        tool = "w*"
        action = "allow"
        [[rules]]
        arguments = { path = "/etc/*", mode = "keep" }
        action = "deny"
        message = "Leave /etc alone."
        "#,
    );
    let (good, bad) = (json!({ "path": "/tmp/x" }), json!({ "path": "/etc/x/y" }));
    for (name, args, is_run) in [
        ("other", good.clone(), true),
        ("other", bad.clone(), false),
        ("careful-one", bad.clone(), true),
        ("careful", bad, false),
    ] {
        let mut client = named(open(&folder), name, json!({})).await;
        let before = runs(&folder);
        let old = result(&mut client, "write", args.clone()).await;
        let new = client.ask(modern_named(name, call("write", args))).await["result"].clone();
        for answer in [old, new] {
            assert_eq!(answer["isError"] != true, is_run, "{name}: {answer}");
            if !is_run {
                let why = text(&answer);
                assert!(why.contains("was not run: Leave /etc alone."), "{why}");
                assert!(why.contains("do without it"), "{why}");
            }
        }
        assert_eq!(runs(&folder) - before, if is_run { 2 } else { 0 });
    }
}

#[tokio::test]
async fn what_nobody_may_call_is_not_there() {
    let folder = folder("policy-hidden", "read_only = true");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert_eq!(listed(&mut client).await, ["read"]);
    let refused = client.ask(request(1, "tools/call", call("write", json!({})))).await;
    assert!(text(&refused["result"]).contains("`write` was not run"), "{refused}");
    assert_eq!(text(&result(&mut client, "read", json!({})).await), "read");
    // The same in `zcp.toml`, where a file of its own wins.
    fs::remove_file(folder.0.join("policy.toml")).expect("it was there");
    let hide = "[policy]\ndefault = \"deny\"\n[[policy.rules]]\ntool = \"read\"\naction = \"hide\"\n[[policy.rules]]\nclient = \"me\"\naction = \"allow\"";
    write(&folder, "zcp.toml", hide);
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert_eq!(listed(&mut client).await, ["write"]);
    assert_eq!(result(&mut client, "write", json!({})).await["isError"], true);
    write(&folder, "policy.toml", "[policy]\ndefault = 'allow'");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert_eq!(listed(&mut client).await, ["read", "write"]);
    assert_eq!(runs(&folder), 0);
}

const ASK: &str = "[[rules]]\ntool = 'write'\naction = 'ask'\nmessage = 'This writes.'";

#[tokio::test]
async fn a_user_is_asked_before_anything_runs() {
    let folder = folder("policy-ask", ASK);
    let mut client = named(open(&folder), "t", all_capabilities()).await;
    for (number, (answer, is_run)) in [
        (json!({ "action": "decline" }), false),
        (json!({ "action": "cancel" }), false),
        (json!({ "action": "accept", "content": {} }), true),
    ]
    .into_iter()
    .enumerate()
    {
        let id = number + 1;
        client.send(request(id, "tools/call", call("write", json!({ "path": "/a" })))).await;
        let asked = client.next().await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let message = asked["params"]["message"].as_str().expect("a message");
        assert!(message.contains("This writes.") && message.contains("path: \"/a\""), "{message}");
        assert_eq!(runs(&folder), 0);
        client.send(response(&asked["id"], answer)).await;
        let done = client.next().await["result"].clone();
        assert_eq!(done["isError"] != true, is_run, "{done}");
    }
    assert_eq!(runs(&folder), 1);
    // What is not asked for is not asked about; and what is wrong is not, either.
    assert_eq!(text(&result(&mut client, "read", json!({})).await), "read");
    let wrong = result(&mut client, "write", json!({ "path": 5 })).await;
    assert!(text(&wrong).contains("bad arguments"), "{wrong}");
}

#[tokio::test]
async fn a_user_is_asked_with_retries_too() {
    let folder = folder("policy-retry", ASK);
    let mut client = PipeClient::new(open(&folder).server());
    let params = call("write", json!({ "path": "/a" }));
    let mut round = async |params: Value| {
        client.ask(modern_as(1, "tools/call", params, all_capabilities())).await
    };
    let retry = |params: &Value, asked: &Value, answer: &str| {
        let mut retry = params.clone();
        let questions = asked["result"]["inputRequests"].as_object().expect("questions");
        let key = questions.keys().next().expect("a question");
        retry["inputResponses"] = json!({ key: { "action": answer, "content": {} } });
        retry["requestState"] = asked["result"]["requestState"].clone();
        retry
    };
    let asked = round(params.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    assert_eq!(runs(&folder), 0);
    let refused = round(retry(&params, &asked, "decline")).await;
    assert!(text(&refused["result"]).contains("the user said no"), "{refused}");
    // A yes is for what was asked.
    let asked = round(params.clone()).await;
    let other = round(retry(&call("write", json!({ "path": "/b" })), &asked, "accept")).await;
    assert!(other["result"]["content"].is_null(), "{other}");
    // And nobody can say it before the question.
    for key in [key.as_str(), "zcp.policy"] {
        let mut early = params.clone();
        early["inputResponses"] = json!({ key: { "action": "accept", "content": {} } });
        let early = round(early).await;
        assert!(early["result"]["content"].is_null(), "{early}");
    }
    assert_eq!(runs(&folder), 0);
    let asked = round(params.clone()).await;
    let done = round(retry(&params, &asked, "accept")).await;
    assert_eq!(text(&done["result"]), "wrote /a", "{done}");
    assert_eq!(runs(&folder), 1);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_refused() {
    let folder = folder("policy-unable", "default = 'ask'");
    let mut client = named(open(&folder), "t", json!({})).await;
    let old = result(&mut client, "write", json!({})).await;
    let new = client.ask(modern_named("t", call("write", json!({})))).await["result"].clone();
    for answer in [old, new] {
        assert_eq!(answer["isError"], true, "{answer}");
        assert!(text(&answer).contains("this client cannot ask"), "{answer}");
    }
    assert_eq!(runs(&folder), 0);
}

#[tokio::test]
async fn a_wrong_policy_closes_the_folder_until_it_is_right() {
    let folder = folder("policy-wrong", "[[rules]]\ntool = 'write'\naction = 'denny'");
    let scripts = open(&folder);
    let mistakes = scripts.mistakes();
    let told = mistakes.borrow().join("; ");
    assert!(told.contains("rule 1: unknown variant `denny`"), "{told}");
    assert!(told.contains("no tool can be called"), "{told}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(listed(&mut client).await, Vec::<String>::new());
    let refused = client.ask(request(1, "tools/call", call("read", json!({})))).await;
    assert!(text(&refused["result"]).contains("`read` was not run"), "{refused}");
    // What is put right counts at once, and so does what is made wrong.
    for (policy, tools) in [
        ("[[rules]]\ntool = 'write'\naction = 'deny'", vec!["read"]),
        ("[[rules", vec![]),
        ("default = 'allow'", vec!["read", "write"]),
        ("", vec![]),
        ("default = 'allow'", vec!["read", "write"]),
        ("defaults = 'allow'", vec![]),
        ("default = 'allow'", vec!["read", "write"]),
        ("audit = 'tools/audit.jsonl'", vec![]),
        ("default = 'allow'", vec!["read", "write"]),
        ("audit = 'nope/../tools/audit.jsonl'", vec![]),
        ("default = 'allow'", vec!["read", "write"]),
        ("[[rules]]\ntool = '{{{{a}}}}'\naction = 'deny'", vec![]),
    ] {
        write(&folder, "policy.toml", policy);
        let begun = Instant::now();
        while listed(&mut client).await != tools {
            assert!(begun.elapsed() < Duration::from_secs(10), "{policy}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(mistakes.borrow().is_empty(), !tools.is_empty(), "{policy}");
    }
    // A `zcp.toml` nobody can read may have forbidden anything, whatever else is said.
    for policy in [Some("default = 'allow'"), None] {
        match policy {
            Some(policy) => write(&folder, "policy.toml", policy),
            None => fs::remove_file(folder.0.join("policy.toml")).expect("it was there"),
        }
        for said in ["[policy", "", "[defaults]\nsandbox = true\n[server]\nname = 5"] {
            write(&folder, "zcp.toml", said);
            let told = open(&folder).mistakes().borrow().join("; ");
            assert!(told.contains("no tool can be called"), "{said}: {told}");
        }
    }
}

#[tokio::test]
async fn a_rule_about_a_tool_that_is_not_there_is_told_of() {
    let rules = "[[rules]]\ntool = \"no_such\"\naction = \"deny\"\n\
                 [[rules]]\ntool = \"later_*\"\naction = \"deny\"\n";
    let folder = folder("idle-rule", rules);
    let scripts = open(&folder);
    let told = scripts.mistakes().borrow().join("\n");
    assert!(told.contains("rule 1") && told.contains("`no_such`"), "{told}");
    assert!(!told.contains("later"), "{told}");
}

#[tokio::test]
async fn a_rule_is_about_an_argument_however_its_name_is_written() {
    let folder = folder(
        "policy-names",
        "[[rules]]\narguments = { path = '/etc/*' }\naction = 'deny'\nmessage = 'not there'",
    );
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    for (args, why) in [
        (json!({ "path": "/etc/a" }), "not there"),
        (json!({ "path": "/tmp/a", "Path": "/etc/a" }), "not there"),
        (json!({ "path": "/tmp/a", "Path": "/tmp/b" }), "two spellings"),
        (json!({ "mode": "a", "Mode": "b" }), "one variable"),
        (json!({ "PATH": "/etc/a" }), "not there"),
    ] {
        let answer = result(&mut client, "write", args.clone()).await;
        assert_eq!(answer["isError"], true, "{args}: {answer}");
        assert!(text(&answer).contains(why), "{args}: {answer}");
    }
    assert_eq!(runs(&folder), 0);
}

#[tokio::test]
async fn every_call_is_written_down() {
    let folder = folder(
        "policy-audit",
        "audit = 'audit.jsonl'\n[[rules]]\narguments = { path = '/etc/*' }\naction = 'deny'\n[[rules]]\narguments = { mode = 'ask' }\naction = 'ask'",
    );
    write(&folder, "tools/fail.sh", "exit 3");
    write(&folder, "tools/late.sh", "# Late.\n# @timeout 1s\nsleep 4744");
    write(&folder, "tools/long.sh", "sleep 4745");
    let mut client = named(open(&folder), "auditor", all_capabilities()).await;
    result(&mut client, "write", json!({ "path": "/tmp/a" })).await;
    result(&mut client, "write", json!({ "path": "/etc/a" })).await;
    result(&mut client, "write", json!({ "path": 5 })).await;
    result(&mut client, "fail", json!({})).await;
    result(&mut client, "late", json!({})).await;
    for action in ["accept", "decline"] {
        client.send(request(1, "tools/call", call("write", json!({ "mode": "ask" })))).await;
        let asked = client.next().await;
        client.send(response(&asked["id"], json!({ "action": action, "content": {} }))).await;
        client.next().await;
    }
    client
        .ask(modern_as(
            1,
            "tools/call",
            call("write", json!({ "mode": "ask" })),
            all_capabilities(),
        ))
        .await;
    client.send(request(2, "tools/call", call("long", json!({})))).await;
    until("it runs", || zcp_tests::script::running("sleep\x004745") == 1).await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 2 }))).await;
    until("it is written down", || lines(&folder, "audit.jsonl").len() == 9).await;
    let all = lines(&folder, "audit.jsonl");
    let short = |line: &Value| {
        let of = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        [of("tool"), of("decision"), of("rule"), of("outcome")].join(" ")
    };
    assert_eq!(
        all.iter().map(short).collect::<Vec<_>>(),
        [
            "write allowed default ok",
            "write denied rule 1 -",
            "write invalid default -",
            "fail allowed default failed",
            "late allowed default timeout",
            "write asked-yes rule 2 ok",
            "write asked-no rule 2 -",
            "write asked rule 2 paused",
            "long allowed default cancelled",
        ]
    );
    let first = &all[0];
    assert_eq!((&first["client"], &first["principal"]), (&json!("auditor"), &json!("")));
    assert_eq!((&first["exitCode"], &all[3]["exitCode"]), (&json!(0), &json!(3)));
    assert!(first["milliseconds"].is_u64() && all[4]["milliseconds"].as_u64() >= Some(1000));
    let time = first["time"].as_str().expect("a time");
    assert!(time.ends_with('Z') && time.contains('T') && time.len() == 24, "{time}");
    assert_eq!(first["arguments"]["names"], json!(["path", "mode"]));
    assert_eq!(first["arguments"]["sha256"].as_str().map(str::len), Some(64));
    let text = fs::read_to_string(folder.0.join("audit.jsonl")).expect("a log");
    assert!(!text.contains("/tmp/a"), "{text}");
    let mode = fs::metadata(folder.0.join("audit.jsonl")).expect("a log").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

#[tokio::test]
async fn secrets_are_not_written_down() {
    let folder = folder("policy-secrets", "audit = 'logs/audit.jsonl'\naudit_arguments = true");
    let script = "# Logs in.\n# @param with string\n# @env TOKEN=secret://env/THE_TOKEN\necho done";
    write(&folder, "tools/login.sh", script);
    let scripts = Scripts::folder(&folder.0).env("THE_TOKEN", "swordfish");
    let mut client = PipeClient::open(scripts.open().expect("it opens").server(), LAST).await;
    result(&mut client, "login", json!({ "with": "my swordfish" })).await;
    until("it is written down", || !lines(&folder, "logs/audit.jsonl").is_empty()).await;
    let line = &lines(&folder, "logs/audit.jsonl")[0];
    assert_eq!(line["arguments"], json!({ "with": "my [secret]" }));
    write(&folder, "policy.toml", "audit = 'none.jsonl'\naudit_arguments = false");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    result(&mut client, "read", json!({})).await;
    until("it is written down", || !lines(&folder, "none.jsonl").is_empty()).await;
    assert_eq!(lines(&folder, "none.jsonl")[0].get("arguments"), None);
}

#[tokio::test]
async fn what_must_be_written_down_and_cannot_does_not_happen() {
    // A folder that cannot be one.
    let folder = folder("policy-required", "audit = 'README.md/audit.jsonl'");
    write(&folder, "README.md", "no folder");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert_eq!(result(&mut client, "write", json!({})).await["isError"], json!(null));
    assert_eq!(runs(&folder), 1);
    write(&folder, "policy.toml", "audit = 'README.md/audit.jsonl'\naudit_required = true");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    let refused = result(&mut client, "write", json!({})).await;
    assert!(text(&refused).contains("cannot be written down"), "{refused}");
    assert_eq!(runs(&folder), 1);
    // As soon as it can be, it is.
    fs::remove_file(folder.0.join("README.md")).expect("it was there");
    assert_eq!(result(&mut client, "write", json!({})).await["isError"], json!(null));
    let decisions: Vec<_> = lines(&folder, "README.md/audit.jsonl")
        .iter()
        .map(|line| line["decision"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(decisions, [Some("denied".to_owned()), Some("allowed".to_owned())]);
}

/// A pipe that nobody reads is a disk that does not answer.
#[tokio::test]
async fn a_log_that_blocks_holds_nobody_up() {
    let folder = folder("policy-blocks", "audit = 'audit.jsonl'\naudit_arguments = true");
    let pipe = folder.0.join("audit.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().is_ok());
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    for number in 0..5 {
        let answer = result(&mut client, "write", json!({ "path": number.to_string() })).await;
        assert_eq!(text(&answer), format!("wrote {number}"));
    }
    // Nothing is lost meanwhile, and the order stays.
    let read = move || {
        use std::io::{BufRead, BufReader};
        let file = fs::OpenOptions::new().read(true).write(true).open(pipe).expect("a pipe");
        let lines = BufReader::new(file).lines().take(5);
        lines.map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect()
    };
    let all: Vec<Value> = tokio::task::spawn_blocking(read).await.expect("it is read");
    let paths: Vec<_> = all.iter().map(|line| line["arguments"]["path"].clone()).collect();
    assert_eq!(paths, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_required_log_has_the_call_before_its_answer() {
    let folder = folder("policy-before", "audit = 'audit.jsonl'\naudit_required = true");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    for number in 1..20 {
        result(&mut client, "read", json!({})).await;
        assert_eq!(lines(&folder, "audit.jsonl").len(), number);
    }
}

/// The last call may have been answered a moment before the server ends.
#[test]
fn a_server_that_ends_has_written_every_call_down() {
    let folder = folder(
        "policy-end",
        "audit = 'audit.jsonl'\ndefault = 'deny'\n[[rules]]\ntool = 'write'\narguments = { mode = 'x' }\naction = 'allow'",
    );
    let calls: String = (0..300)
        .map(|id| format!("{}\n", modern_as(id, "tools/call", call("write", json!({})), json!({}))))
        .collect();
    let mut server = std::process::Command::new(zcp_tests::examples::zcp())
        .args(["serve", "--stdio"])
        .arg(&folder.0)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("its input");
    std::io::Write::write_all(&mut input, calls.as_bytes()).expect("it reads");
    drop(input);
    assert!(server.wait().expect("it ends").success());
    assert_eq!(lines(&folder, "audit.jsonl").len(), 300);
}

/// How often a folder was looked at is counted by what it runs when it is.
#[tokio::test]
async fn writing_down_is_no_change_of_the_folder() {
    let folder = folder("policy-watch", "audit = 'audit.jsonl'");
    let counted = Folder::new("policy-looks");
    let looks = counted.0.join("looks");
    let hook = format!(
        "#!/bin/bash\necho look >> '{}'\nmcp_register_tool '{{\"name\":\"read\",\"path\":\"read.sh\"}}'\n",
        looks.display()
    );
    write(&folder, "server.d/register.sh", &hook);
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_ALLOW_PROJECT_HOOKS", "true");
    let mut client = PipeClient::open(scripts.open().expect("it opens").server(), LAST).await;
    let count = || fs::read_to_string(&looks).unwrap_or_default().lines().count();
    assert_eq!(count(), 1);
    for _ in 0..5 {
        result(&mut client, "read", json!({})).await;
    }
    until("they are written down", || lines(&folder, "audit.jsonl").len() == 5).await;
    client.silent(Duration::from_millis(700)).await;
    assert_eq!(count(), 1);
    write(&folder, "tools/other.sh", "echo other");
    until("a change is seen", || count() == 2).await;
}

#[tokio::test]
async fn calls_can_be_looked_on() {
    let folder =
        folder("policy-observe", "[[rules]]\narguments = { path = 'no' }\naction = 'deny'");
    write(&folder, "tools/object.sh", "echo '{\"a\": 1}'");
    let scripts = open(&folder);
    let mut seen = scripts.observe();
    let mut client = PipeClient::new(scripts.server());
    client.ask(initialize(0, LAST)).await;
    result(&mut client, "object", json!({})).await;
    result(&mut client, "write", json!({ "path": "no" })).await;
    result(&mut client, "write", json!({ "path": 1 })).await;
    let object = seen.recv().await.expect("a call");
    assert_eq!((object.tool.as_str(), object.client.as_str()), ("object", "test"));
    assert_eq!(object.outcome, Outcome::Ok);
    assert_eq!(object.result["structuredContent"], json!({ "a": 1 }));
    assert_eq!(object.result["isError"], false);
    assert!(object.elapsed > Duration::ZERO);
    let denied = seen.recv().await.expect("a call");
    assert_eq!(denied.outcome, Outcome::Denied);
    assert_eq!(denied.arguments["path"], "no");
    assert!(text(&denied.result).contains("was not run"), "{}", denied.result);
    assert_eq!(seen.recv().await.expect("a call").outcome, Outcome::Invalid);
}
