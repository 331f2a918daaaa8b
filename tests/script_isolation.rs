//! What scripts cannot do to each other, to their server and to the rest of the machine.

use futures_util::future::join_all;
use serde_json::{Value, json};
use std::{
    fs,
    time::{Duration, Instant},
};
use zcp_scripts::Scripts;
use zcp_tests::{
    call,
    folder::Folder,
    http::HttpServer,
    modern, modern_as,
    pipe::PipeClient,
    replica::Replica,
    request, response,
    script::{LAST, open, running, serve, until, write},
    text,
};

/// Shows the pipes a shell has.
const PIPES: &str = "find /proc/$$/fd -lname 'pipe:*' -printf '%f '";

/// Numbers of channels, which begin at 200. What this test was started with has none of them.
fn channels(text: &str) -> Vec<u32> {
    let numbers = |text: &str| -> Vec<u32> {
        let words = text.split_whitespace().filter_map(|word| word.rsplit('/').next());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let plain = std::process::Command::new("bash").args(["-c", PIPES]).output();
    let plain = numbers(&String::from_utf8_lossy(&plain.expect("bash runs").stdout));
    let is_channel = |number: &u32| *number >= 200 && !plain.contains(number);
    numbers(text).into_iter().filter(is_channel).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_script_has_no_descriptor_of_another_call() {
    let folder = Folder::new("descriptors");
    let looks = format!(
        "# Looks.\n# @env KEY=secret://cmd/bash peek.sh\necho \"own $ZCP_OUT $ZCP_IN\"; {PIPES}"
    );
    write(&folder, "tools/looks.sh", &looks);
    write(&folder, "peek.sh", &format!("{PIPES} >> peeked.txt; echo a-key"));
    let server = HttpServer::new(open(&folder).server()).await;
    let clients = (0..24).map(async |client| {
        let mut foreign = vec![];
        for turn in 0..8 {
            let message = modern(client * 100 + turn, "tools/call", call("looks", json!({})));
            let shown = server.post(&message).send().await.json().await;
            let (own, open) = text(&shown["result"]).split_once('\n').expect("two lines");
            let (own, open) = (channels(own), channels(open));
            assert_eq!(own.len(), 2, "{shown}");
            assert!(own.iter().all(|number| open.contains(number)), "{shown}");
            foreign.extend(open.into_iter().filter(|number| !own.contains(number)));
        }
        foreign
    });
    let foreign: Vec<u32> = join_all(clients).await.into_iter().flatten().collect();
    assert_eq!(foreign, Vec::<u32>::new(), "scripts have channels of others");
    let peeked = fs::read_to_string(folder.0.join("peeked.txt")).expect("commands ran");
    assert_eq!(channels(&peeked), Vec::<u32>::new(), "a secret's command has channels");
}

fn contract(script: &str) -> String {
    format!("# Tries.\n: MCP_TOOL_\n{script}\necho done")
}

#[tokio::test]
async fn a_fifo_for_a_file_of_the_contract_blocks_nobody() {
    let folder = Folder::new("fifo");
    let fifo = |name: &str| contract(&format!("rm -f \"${name}\"; mkfifo \"${name}\"; sleep 0.3"));
    write(&folder, "tools/error.sh", &fifo("MCP_TOOL_ERROR_FILE"));
    write(&folder, "tools/resources.sh", &fifo("MCP_TOOL_RESOURCES_FILE"));
    write(&folder, "tools/question.sh", &fifo("MCP_ELICIT_REQUEST_FILE"));
    let endless = contract("ln -sf /dev/zero \"$MCP_ELICIT_REQUEST_FILE\"; sleep 0.3");
    write(&folder, "tools/endless.sh", &endless);
    let server = Replica::zcp(&[&folder.0.to_string_lossy()]).await;
    let address = server.address().to_owned();
    let calls = ["error", "resources", "question", "endless"].repeat(2);
    let mut all = tokio::task::JoinSet::new();
    for (id, tool) in calls.into_iter().enumerate() {
        let can = json!({ "elicitation": { "form": {} } });
        let message = modern_as(id, "tools/call", call(tool, json!({})), can);
        let url = format!("http://{address}/mcp");
        all.spawn(async move {
            let sent = reqwest::Client::new().post(url).body(message.to_string());
            let sent = sent
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", tool);
            let sent = sent.timeout(Duration::from_secs(20)).send().await;
            let answer = sent.expect("it is answered").text().await.expect("all of it");
            assert!(answer.contains("done"), "{tool}: {answer}");
        });
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    let health = reqwest::Client::new().get(format!("http://{address}/healthz"));
    let health = health.timeout(Duration::from_secs(10)).send().await;
    assert_eq!(health.expect("the server answers").status(), 200);
    all.join_all().await;
}

#[tokio::test]
async fn links_lead_the_server_to_no_other_file() {
    let (folder, elsewhere) = (Folder::new("links"), Folder::new("links-elsewhere"));
    let outside = elsewhere.0.join("outside.txt");
    fs::write(&outside, "TOP-SECRET").expect("written");
    let outside = outside.display();
    let link = |to: &str| contract(&format!("ln -sf {outside} \"{to}\""));
    let ask = "printf '{\"message\":\"Go?\",\"mode\":\"form\"}' > \"$MCP_CALL_DIR/q\"; mv \"$MCP_CALL_DIR/q\" \"$MCP_ELICIT_REQUEST_FILE\"\n\
               until [ -f \"$MCP_ELICIT_RESPONSE_FILE\" ]; do sleep 0.05; done; cat \"$MCP_ELICIT_RESPONSE_FILE\"";
    let half = "${MCP_ELICIT_RESPONSE_FILE}.half";
    for (name, script) in [
        ("error", link("$MCP_TOOL_ERROR_FILE")),
        ("resources", link("$MCP_TOOL_RESOURCES_FILE")),
        ("hard", contract(&format!("ln -f {outside} \"$MCP_TOOL_ERROR_FILE\""))),
        ("half", contract(&format!("ln -s {outside} \"{half}\"; {ask}"))),
        ("answer", contract(&format!("ln -s {outside} \"$MCP_CALL_DIR/answer.half\"; {ask}"))),
    ] {
        write(&folder, &format!("tools/{name}.sh"), &script);
    }
    let mut client = serve(&folder, &[]).await;
    for tool in ["error", "resources", "hard"] {
        let answer = client.ask(request(1, "tools/call", call(tool, json!({})))).await;
        assert!(answer.to_string().contains("done"), "{tool}: {answer}");
        assert!(!answer.to_string().contains("TOP-SECRET"), "{tool}: {answer}");
    }
    for (id, tool) in [(2, "half"), (3, "answer")] {
        client.send(request(id, "tools/call", call(tool, json!({})))).await;
        let question = client.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let accepted = json!({ "action": "accept", "content": { "n": "injected" } });
        client.send(response(&question["id"], accepted)).await;
        let answer = client.next().await;
        assert!(answer["result"].to_string().contains("injected"), "{answer}");
    }
    assert_eq!(
        fs::read_to_string(elsewhere.0.join("outside.txt")).expect("it is there"),
        "TOP-SECRET"
    );
}

/// The script asks, and shows what it is told.
const ASKS: &str = "# Asks.\necho 'ask go {\"message\":\"May I?\"}' >> \"$ZCP_OUT\"\n\
                    IFS= read -r answer < \"$ZCP_IN\"; printf '%s' \"$answer\"; : ";

#[tokio::test]
async fn scripts_that_wait_for_an_answer_are_limited() {
    let folder = Folder::new("waiting");
    write(&folder, "tools/asks.sh", &format!("{ASKS} 4751"));
    write(&folder, "tools/plain.sh", "# Plain.\necho plain");
    let scripts = Scripts::folder(&folder.0)
        .env("ZCP_MAX_CONCURRENT_SCRIPTS", "4")
        .env("ZCP_MAX_WAITING_SCRIPTS", "6");
    let server = scripts.open().expect("it opens").server();
    let mut client = PipeClient::open(server, LAST).await;
    for id in 0..40 {
        client.send(request(100 + id, "tools/call", call("asks", json!({})))).await;
    }
    let (mut refused, mut most) = (0, 0);
    while refused < 34 {
        let message = client.next().await;
        most = most.max(running("tools/asks.sh"));
        if let Some(result) = message.get("result") {
            let said = text(result);
            assert!(said.contains("6 scripts of this server wait for an answer"), "{message}");
            refused += 1;
        }
    }
    assert!(most <= 10, "{most} processes");
    until("six wait", || running("tools/asks.sh") == 6).await;
    client.send(request(1, "tools/call", call("plain", json!({})))).await;
    let plain = client.until(&json!(1)).await.pop().expect("an answer");
    assert_eq!(text(&plain["result"]), "plain");
}

#[tokio::test]
async fn a_question_nobody_answers_ends() {
    let folder = Folder::new("unanswered");
    write(&folder, "tools/asks.sh", ASKS);
    let scripts = Scripts::folder(&folder.0).env("ZCP_ANSWER_TIMEOUT", "1s");
    let server = scripts.open().expect("it opens").server();
    let mut client = PipeClient::open(server, LAST).await;
    let begun = Instant::now();
    let all: Vec<Value> = client.exchange(request(1, "tools/call", call("asks", json!({})))).await;
    let answer = all.last().expect("an answer");
    assert!(text(&answer["result"]).contains("nobody answered in time"), "{answer}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
}
