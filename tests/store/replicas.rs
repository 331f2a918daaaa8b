//! Servers that are killed and started again: their clients do not notice.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    time::Duration,
};
use zcp_client::{Client, Started, wire::Revision};
use zcp_tests::{
    examples::zcp, folder::Folder, http::free_address, redis::RedisServer, replica::Replica,
};

/// A session, spoken to by hand: a client of ours would open another.
async fn open(replica: &Replica) -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "replicas", "version": "1" } } });
    let answer = post(replica, None, &hello).await;
    let session = answer.headers()["mcp-session-id"].to_str().expect("ASCII").to_owned();
    let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(replica, Some(&session), &done).await.status(), 202);
    session
}

async fn post(
    replica: &Replica,
    session: Option<&str>,
    message: &serde_json::Value,
) -> reqwest::Response {
    let request = reqwest::Client::new()
        .post(replica.http().address().clone())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .body(message.to_string());
    let request = match session {
        Some(session) => request.header("mcp-session-id", session),
        None => request,
    };
    request.send().await.expect("it answers")
}

async fn pings(replica: &Replica, session: &str) -> u16 {
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    post(replica, Some(session), &ping).await.status().as_u16()
}

#[tokio::test]
async fn a_session_outlives_a_server_that_is_killed() {
    let folder = Folder::new("killed");
    let data = folder.0.to_string_lossy().into_owned();
    let mut replica = Replica::zcp(&["--data", &data]).await;
    let session = open(&replica).await;
    for _ in 0..3 {
        assert_eq!(pings(&replica, &session).await, 200);
        replica.again().await;
    }
    assert_eq!(pings(&replica, &session).await, 200);
    assert_eq!(pings(&replica, "another").await, 404);
}

#[tokio::test]
async fn a_full_disk_is_named_and_nothing_is_half_written() {
    let folder = Folder::new("full");
    let data = folder.0.to_string_lossy().into_owned();
    let address = free_address().to_string();
    // No file may have more than a megabyte: as on a full disk, writing fails and reading does not.
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$@\"";
    let process = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(zcp())
        .args(["serve", "--json", "--http", &address, "--data", &data])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let replica = Replica::of(process, address).await;
    let session = open(&replica).await;
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "x".repeat(2000), "version": "1" } } });
    let mut refused = None;
    for _ in 0..500 {
        let answer = post(&replica, None, &hello).await;
        if answer.status().is_server_error() {
            refused = Some(answer.text().await.expect("text"));
            break;
        }
    }
    let refused = refused.expect("the disk is full");
    assert!(refused.contains("the store is unavailable"), "{refused}");
    assert!(!refused.contains(&data), "{refused}");
    // It lives on, and knows what it knew; so does whoever opens the file next.
    assert_eq!(pings(&replica, &session).await, 200);
    drop(replica);
    let replica = Replica::zcp(&["--data", &data]).await;
    assert_eq!(pings(&replica, &session).await, 200);
}

#[tokio::test]
async fn any_of_three_serves_any_session_while_they_are_killed() {
    let redis = RedisServer::new().await;
    let args = ["--store", &redis.url()];
    let mut replicas =
        [Replica::zcp(&args).await, Replica::zcp(&args).await, Replica::zcp(&args).await];
    let mut sessions = vec![];
    for replica in &replicas {
        sessions.push(open(replica).await);
    }
    for round in 0..6 {
        replicas[round % 3].again().await;
        for session in &sessions {
            for replica in &replicas {
                assert_eq!(pings(replica, session).await, 200, "in round {round}");
            }
        }
    }
    // What ends on one ends on all.
    let ended = sessions.pop().expect("three");
    let delete = reqwest::Client::new()
        .delete(replicas[0].http().address().clone())
        .header("mcp-session-id", &ended)
        .send();
    assert_eq!(delete.await.expect("it answers").status(), 204);
    for replica in &replicas {
        assert_eq!(pings(replica, &ended).await, 404);
        assert_eq!(pings(replica, &sessions[0]).await, 200);
    }
}

#[tokio::test]
async fn a_question_asked_by_one_is_answered_through_another_after_a_kill() {
    // The new era carries its state along: sealed here, opened there.
    let redis = RedisServer::new().await;
    let args = ["--store", &redis.url()];
    let (mut one, two) = (Replica::zcp(&args).await, Replica::zcp(&args).await);
    let call = |state: Option<&str>| {
        let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } } });
        let mut params = json!({ "name": "introduce", "arguments": {}, "_meta": about });
        if let Some(state) = state {
            params["requestState"] = state.into();
            params["inputResponses"] = json!({ "name": { "action": "accept",
                "content": { "name": "Ann" } }, "you": { "action": "accept",
                "content": { "name": "Ann" } } });
        }
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
    };
    let ask = async |replica: &Replica, message: serde_json::Value| {
        let request = reqwest::Client::new()
            .post(replica.http().address().clone())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "introduce")
            .body(message.to_string());
        let text = request.send().await.expect("it answers").text().await.expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        serde_json::from_str::<serde_json::Value>(line).expect("JSON")
    };
    let asked = ask(&one, call(None)).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let state = asked["result"]["requestState"].as_str().expect("a state").to_owned();
    one.again().await;
    let answered = ask(&two, call(Some(&state))).await;
    assert!(answered["error"].is_null(), "{answered}");
    // The other has never seen it, and took it; a stranger's is refused.
    let refused = ask(&two, call(Some("not-a-state"))).await;
    assert!(refused["error"]["code"].is_number(), "{refused}");
}

#[tokio::test]
async fn a_store_is_checked_by_the_command() {
    let (mut redis, folder) = (RedisServer::new().await, Folder::new("checked"));
    let data = folder.0.to_string_lossy().into_owned();
    let check = |args: &[&str]| {
        let mut command = Command::new(zcp());
        command.args(["store", "check", "--json"]).args(args).output().expect("it runs")
    };
    for args in [&["--data", &data][..], &["--store", &redis.url()], &[]] {
        let output = check(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(said["store"], "fine");
    }
    redis.kill();
    let output = check(&["--store", &redis.url()]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("the store is unavailable: redis"), "{words}");
}

#[tokio::test]
async fn readiness_tells_of_the_store_and_recovers() {
    let mut redis = RedisServer::new().await;
    let replica = Replica::zcp(&["--store", &redis.url()]).await;
    let session = open(&replica).await;
    redis.kill();
    let (status, why) = replica.ready().await;
    assert_eq!(status, 503);
    // The reason, which has the store's address, is in the log.
    assert_eq!(why, "the store is unavailable: try again later\n");
    // What needs no store goes on; what does says so, and is not taken for a lost session.
    let client = Client::builder("replicas", "1").revision(Revision::V2026_07_28);
    let client = client.connect(replica.http()).await.expect("it is reached");
    let counted: BTreeMap<String, usize> =
        client.call("count", json!({ "text": "one two" })).await.expect("it counts");
    assert_eq!(counted["words"], 2);
    assert!(pings(&replica, &session).await >= 500, "the session is not lost");
    redis.start().await;
    replica.is_ready().await;
    assert_eq!(pings(&replica, &session).await, 200);
}

#[tokio::test]
async fn what_servers_have_in_hand_is_shown_by_the_command() {
    let (redis, folder) = (RedisServer::new().await, Folder::new("operated"));
    let data = folder.0.to_string_lossy().into_owned();
    let url = redis.url();
    for kept in [["--data", &data], ["--store", &url]] {
        let command = |words: &[&str]| {
            Command::new(zcp()).args(words).args(kept).output().expect("the command runs")
        };
        let json = |words: &[&str]| {
            let output = command(&[words, &["--json"]].concat());
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{words:?}: {why}");
            serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
        };
        let replica = Replica::zcp(&kept).await;
        assert_eq!(json(&["tasks", "ls"]), json!([]));
        assert!(String::from_utf8_lossy(&command(&["sessions"]).stdout).contains("No sessions."));
        let session = open(&replica).await;
        let sessions = json(&["sessions"]);
        assert_eq!(sessions[0]["id"], session);
        assert_eq!(sessions[0]["client"]["name"], "replicas");
        let shown = command(&["sessions"]);
        let shown = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.contains("anybody with replicas 1, 2025-11-25"), "{shown}");
        assert!(!shown.contains(&session), "a session's id is not shown whole: {shown}");

        let builder = Client::builder("replicas", "1").revision(Revision::V2026_07_28).tasks();
        let client = builder.connect(replica.http()).await.expect("it is reached");
        let call = client.tool("countdown").args(json!({ "seconds": 60 }));
        let Started::Task(task) = call.start().await.expect("it begins") else {
            panic!("it is no task")
        };
        let listed = json(&["tasks", "ls"]);
        assert_eq!(listed[0]["id"], task.id());
        assert_eq!(
            (&listed[0]["tool"], &listed[0]["status"]),
            (&json!("countdown"), &json!("working"))
        );
        let beginning = &task.id()[..10];
        let shown = command(&["tasks", "show", beginning]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.starts_with(&format!("{}: countdown working", task.id())), "{shown}");
        assert_eq!(json(&["tasks", "cancel", beginning])["status"], "cancelled");
        let state = task.state().await.expect("it is known");
        assert_eq!(state.message.as_deref(), Some("cancelled by an operator"));
        // What is over cannot be cancelled, what is not there cannot be shown, and both are said.
        for (words, why) in [
            (["tasks", "cancel", beginning], "the task is over: cancelled"),
            (["tasks", "show", "nothing"], "no task's id begins with `nothing`: see zcp tasks ls"),
        ] {
            let output = command(&words);
            assert_eq!(output.status.code(), Some(1));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(why), "{said}");
        }
    }
    let nowhere = Command::new(zcp()).args(["tasks", "ls"]).output().expect("it runs");
    assert_eq!(nowhere.status.code(), Some(2));
    let elsewhere = folder.0.join("elsewhere").to_string_lossy().into_owned();
    let empty = Command::new(zcp()).args(["sessions", "--data", &elsewhere]).output();
    let said = empty.expect("it runs").stderr;
    assert!(String::from_utf8_lossy(&said).contains("has no store"));
    assert!(!folder.0.join("elsewhere").exists(), "looking makes nothing");
}

/// Reads events until one has an id and is the one that is looked for.
async fn event(stream: &mut reqwest::Response, wanted: impl Fn(&Value) -> bool) -> (String, Value) {
    let mut text = String::new();
    loop {
        let chunk = tokio::time::timeout(Duration::from_secs(20), stream.chunk()).await;
        let chunk = chunk.expect("something is said in time").expect("the stream goes on");
        text += &String::from_utf8_lossy(&chunk.expect("the stream has not ended"));
        for event in text.split("\n\n") {
            let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let message = line("data: ").and_then(|data| serde_json::from_str(data).ok());
            if let (Some(id), Some(message)) = (line("id: "), message)
                && wanted(&message)
            {
                return (id.to_owned(), message);
            }
        }
    }
}

#[tokio::test]
async fn a_stream_whose_server_died_goes_on_or_says_why_not() {
    let folder = Folder::new("streams");
    let file = folder.0.join("state.sqlite").to_string_lossy().into_owned();
    let mut replica = Replica::everything(&["--data", &file]).await;
    let session = open(&replica).await;
    let answered = |message: &Value| message["id"] == 7;
    for (tool, args, expected) in [
        // May be done twice, so it is.
        (
            "slow_compute",
            json!({ "seconds": 2, "label": "again" }),
            "again: computed for 2 seconds",
        ),
        // Nothing is known of it, so it is not.
        ("slow_once", json!({ "seconds": 30 }), ""),
    ] {
        let params = json!({ "name": tool, "arguments": args, "_meta": { "progressToken": 1 } });
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let mut stream = post(&replica, Some(&session), &call).await;
        let (last, _) =
            event(&mut stream, |message| message["method"] == "notifications/progress").await;
        replica.again().await;
        let mut rest = reqwest::Client::new()
            .get(replica.http().address().clone())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session)
            .header("last-event-id", last)
            .send()
            .await
            .expect("it answers");
        let (_, answer) = event(&mut rest, answered).await;
        match expected {
            "" => {
                let why = answer["error"]["message"].as_str().expect("an error");
                assert!(why.contains("stopped before it was done"), "{why}");
            }
            expected => assert_eq!(answer["result"]["content"][0]["text"], expected),
        }
    }
}
