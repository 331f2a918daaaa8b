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
    script::{LAST, open, result, running, serve, until, write},
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
                    IFS= read -r answer < \"$ZCP_IN\"; printf '%s' \"$answer\"";

#[tokio::test]
async fn scripts_that_wait_for_an_answer_are_limited() {
    let folder = Folder::new("waiting");
    write(&folder, "tools/parks.sh", ASKS);
    write(&folder, "tools/plain.sh", "# Plain.\necho plain");
    let scripts = Scripts::folder(&folder.0)
        .env("ZCP_MAX_CONCURRENT_SCRIPTS", "4")
        .env("ZCP_MAX_WAITING_SCRIPTS", "6");
    let server = scripts.open().expect("it opens").server();
    let mut client = PipeClient::open(server, LAST).await;
    for id in 0..40 {
        client.send(request(100 + id, "tools/call", call("parks", json!({})))).await;
    }
    let (mut refused, mut most) = (0, 0);
    while refused < 34 {
        let message = client.next().await;
        most = most.max(running("tools/parks.sh"));
        if let Some(result) = message.get("result") {
            let said = text(result);
            assert!(said.contains("6 scripts of this server wait for an answer"), "{message}");
            refused += 1;
        }
    }
    assert!(most <= 10, "{most} processes");
    until("six wait", || running("tools/parks.sh") == 6).await;
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

/// A Python script that tries something under rules, and says how that went.
fn tries(rules: &str, lines: &str) -> String {
    let rules = rules.split(", ").map(|rule| format!("# @sandbox {rule}\n")).collect::<String>();
    format!(
        "# Tries.\n{rules}import ctypes, os, resource, socket, sys\n\
         def attempt(name, do):\n    try:\n        print(name, 'done', do())\n    \
         except OSError as error:\n        print(name, error.errno)\n{lines}\n"
    )
}

/// A process without capabilities, which another of its user could look into.
fn victim() -> std::process::Child {
    let mut plain = std::process::Command::new("sleep");
    let mut dropped = std::process::Command::new("setpriv");
    dropped.args(["--bounding-set=-all", "--inh-caps=-all", "sleep"]);
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let command = if is_root { &mut dropped } else { &mut plain };
    command.arg("4752").env("VICTIM", "its-own-secret").spawn().expect("it starts")
}

#[tokio::test]
async fn unix_sockets_have_to_be_asked_for() {
    let folder = Folder::new("unix-sockets");
    let path = folder.0.join("there.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let path = path.display();
    let lines = format!(
        "def connect():\n    socket.socket(socket.AF_UNIX).connect('{path}')\n\
         attempt('connect', connect)\n\
         attempt('stream', lambda: len(socket.socketpair()))\n\
         attempt('datagram', lambda: len(socket.socketpair(type=socket.SOCK_DGRAM)))\n\
         attempt('inet', lambda: socket.socket().close())"
    );
    write(&folder, "tools/closed.py", &tries("read-only", &lines));
    write(&folder, "tools/asks.py", &tries("read-only, unix-sockets", &lines));
    write(&folder, "tools/fails.py", &tries("read", "socket.socket(socket.AF_UNIX)"));
    let mut client = serve(&folder, &[]).await;
    let closed = result(&mut client, "closed", json!({})).await;
    let refused = format!("connect {0}\nstream done 2\ndatagram {0}\ninet done None", 97);
    assert_eq!(text(&closed), refused, "{closed}");
    let asked = result(&mut client, "asks", json!({})).await;
    assert!(text(&asked).starts_with("connect done"), "{asked}");
    let fails = result(&mut client, "fails", json!({})).await.to_string();
    assert!(fails.contains("`unix-sockets`: it may open no Unix socket"), "{fails}");
    drop(listener);
}

#[tokio::test]
async fn a_sandbox_keeps_other_processes_out_of_reach() {
    let folder = Folder::new("processes");
    let mut victim = victim();
    let id = victim.id();
    until("it runs", || running("sleep\x004752") == 1).await;
    let lines = format!(
        "attempt('memory', lambda: open('/proc/{id}/mem', 'r+b'))\n\
         attempt('environment', lambda: open('/proc/{id}/environ').read())\n\
         attempt('limit', lambda: resource.prlimit({id}, resource.RLIMIT_CPU, (1, 1)))\n\
         attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, {id}, 19))\n\
         attempt('user', lambda: os.setpriority(os.PRIO_USER, 0, 19))\n\
         attempt('group', lambda: os.setpriority(os.PRIO_PGRP, 0, 19))\n\
         attempt('affinity', lambda: os.sched_setaffinity({id}, [0]))\n\
         attempt('scheduler', lambda: os.sched_setscheduler({id}, os.SCHED_IDLE, os.sched_param(0)))\n\
         attempt('parameters', lambda: os.sched_setparam({id}, os.sched_param(0)))\n\
         attempt('own', lambda: resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64)))\n\
         attempt('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, 19))\n\
         attempt('pinned', lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))\n\
         attempt('idle', lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)))"
    );
    let others = ["memory", "environment", "limit", "priority", "user", "group", "affinity"];
    let others = others.into_iter().chain(["scheduler", "parameters"]);
    for rules in ["no-network", "no-signals", "read-only", ""] {
        let name = format!("tool{}", rules.len());
        write(&folder, &format!("tools/{name}.py"), &tries(rules, &lines));
    }
    let mut client = serve(&folder, &[]).await;
    for tool in ["tool10", "tool9", "tool0"] {
        let tried = result(&mut client, tool, json!({})).await;
        let lines: Vec<&str> = text(&tried).lines().collect();
        for (line, name) in lines.iter().zip(others.clone()) {
            let refused = [format!("{name} 13"), format!("{name} 1")];
            assert!(refused.contains(&(*line).to_owned()), "{tool}: {tried}");
        }
        for (line, name) in lines[9..].iter().zip(["own", "nice", "pinned", "idle"]) {
            assert!(line.starts_with(&format!("{name} done")), "{tool}: {tried}");
        }
    }
    victim.kill().expect("it is ours");
    victim.wait().expect("it ends");
}

#[tokio::test]
async fn a_sandbox_has_no_terminal_and_no_capability() {
    let folder = Folder::new("terminal");
    let lines = "attempt('terminal', lambda: open('/dev/tty'))\n\
                 attempt('devices', lambda: os.listdir('/dev'))\n\
                 attempt('shared', lambda: os.listdir('/dev/shm'))\n\
                 attempt('null', lambda: open('/dev/null', 'w').write('x'))\n\
                 print('session', os.getsid(0) == os.getpid())\n\
                 print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm'))])";
    write(&folder, "tools/closed.py", &tries("", lines));
    // A rename between folders needs a rule of its own in every sandbox.
    let moves = "os.makedirs('a', exist_ok=True)\nos.makedirs('b', exist_ok=True)\nopen('a/x', 'w')\n\
                 attempt('moves', lambda: os.rename('a/x', 'b/x'))";
    write(&folder, "tools/open.py", &tries("no-network", moves));
    let mut client = serve(&folder, &[]).await;
    let closed = result(&mut client, "closed", json!({})).await;
    let none = "0000000000000000";
    let lines: Vec<&str> = text(&closed).lines().collect();
    assert!(lines[0] == "terminal 13" || lines[0] == "terminal 6", "{closed}");
    assert_eq!(lines[1..3], ["devices 13", "shared 13"], "{closed}");
    assert_eq!(lines[3..5], ["null done 1", "session True"], "{closed}");
    assert_eq!(lines[5], format!("['{none}', '{none}']"), "{closed}");
    assert_eq!(text(&result(&mut client, "open", json!({})).await), "moves done None");
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_sandbox_refuses_calls_that_lead_out_of_it() {
    let folder = Folder::new("calls");
    // x32's `getpid`, keyctl, add_key, unshare, setns, bpf, userfaultfd, perf_event_open, mount,
    // clone with a user namespace, open_tree_attr, fanotify_init, fanotify_mark, and fcntl for a lease;
    // then clone3 and io_uring_setup.
    let lines = "libc = ctypes.CDLL(None, use_errno=True)\n\
                 def call(*words):\n    done = libc.syscall(*[ctypes.c_long(word) for word in words])\n    \
                 return ctypes.get_errno() if done == -1 else 'done'\n\
                 print([call(*words) for words in [[0x40000000 + 39], [250, 0], [248], [272, 0], [308, 0], [321], [323], [298], [165], [56, 0x10000000], [467], [300, 0x200], [301, -1], [72, 0, 1024, 1]]])\n\
                 print([call(435, 0, 0), call(425, 1, 0)])";
    write(&folder, "tools/calls.py", &tries("no-signals", lines));
    let mut client = serve(&folder, &[]).await;
    let said = result(&mut client, "calls", json!({})).await;
    assert_eq!(text(&said), format!("{:?}\n[38, 38]", [1; 14]), "{said}");
}

/// What cannot be read may say that there is a sandbox, or that something is denied.
#[tokio::test]
async fn settings_that_cannot_be_read_open_nothing() {
    let (folder, elsewhere) = (Folder::new("unreadable"), Folder::new("unreadable-elsewhere"));
    fs::write(elsewhere.0.join("outside.txt"), "outside").expect("written");
    let reads = format!("#!/bin/sh\ncat {}/outside.txt 2>&1\n", elsewhere.0.display());
    write(&folder, "resources/show.sh", &reads);
    write(&folder, "resources/show.sh.meta.json", r#"{ "uri": "test://show", "name": "show" }"#);
    for (settings, is_read) in [("[defaults]\ntimeout = '9s'\n", true), ("[defaults\n", false)] {
        write(&folder, "zcp.toml", settings);
        let mut client = PipeClient::open(open(&folder).server(), LAST).await;
        let read = request(3, "resources/read", json!({ "uri": "test://show" }));
        let said = client.ask(read).await.to_string();
        assert_eq!(said.contains("\"outside\""), is_read, "{settings}: {said}");
    }
    // A hook that cannot be looked at is not taken for none.
    let folder = Folder::new("unreadable-hook");
    write(&folder, "tools/one.sh", "# Says something.\necho one\n");
    write(&folder, "server.d", "a file where a folder should be");
    let scripts = open(&folder);
    assert!(!scripts.mistakes().borrow().is_empty());
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let listed = client.ask(request(2, "tools/list", json!({}))).await;
    assert_eq!(listed["result"]["tools"], json!([]), "{listed}");
}

/// Also if another file says what runs it.
#[tokio::test]
async fn a_command_that_a_sandbox_may_write_is_not_run() {
    let folder = Folder::new("writable-command");
    write(&folder, "data/bin/run", "#!/bin/sh\necho ran\n");
    write(&folder, "tools/writes.sh", "# Writes.\n# @sandbox write data\necho x\n");
    write(&folder, "tools/runs.sh", "# Runs.\n# @command ../data/bin/run {file}\necho y\n");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    let said = client.ask(request(2, "tools/call", call("runs", json!({})))).await.to_string();
    assert!(!said.contains("\"ran"), "{said}");
    assert!(said.contains("may have written"), "{said}");
}

#[tokio::test]
async fn a_script_cannot_leave_the_sandbox_of_its_project() {
    let (folder, elsewhere) = (Folder::new("floor"), Folder::new("floor-elsewhere"));
    fs::write(elsewhere.0.join("outside.txt"), "outside").expect("written");
    let reads = format!(
        "# Reads.\n# @limit files 999\ncat {}/outside.txt 2>&1; ulimit -Hn",
        elsewhere.0.display()
    );
    write(
        &folder,
        "zcp.toml",
        "[defaults]\nsandbox = true\nlimits = { files = 77 }\n[tools.free]\nsandbox = false\n",
    );
    for tool in ["own", "free", "open"] {
        write(&folder, &format!("tools/{tool}.sh"), &reads);
        write(&folder, &format!("tools/{tool}.meta.json"), r#"{"sandbox":false}"#);
    }
    write(&folder, "tools/open.meta.json", r#"{"sandbox":{"read":["/"]}}"#);
    let mut client = serve(&folder, &[]).await;
    for tool in ["own", "open"] {
        let said = result(&mut client, tool, json!({})).await;
        assert!(!said.to_string().contains("outside\\n"), "{tool}: {said}");
        assert!(said.to_string().contains("ermission denied"), "{tool}: {said}");
    }
    // The project itself allows it.
    let free = result(&mut client, "free", json!({})).await;
    assert_eq!(text(&free), "outside77", "{free}");
}

#[tokio::test]
async fn limits_hold_from_the_first_instruction() {
    let folder = Folder::new("first");
    let tool = "# Shows.\n# @limit files 40\n# @limit cpu 9s\nulimit -Hn; ulimit -St";
    let mut client = serve(&folder, &[("tools/shows.sh", tool)]).await;
    for _ in 0..5 {
        let shown = result(&mut client, "shows", json!({})).await;
        assert_eq!(text(&shown), "40\n9", "{shown}");
    }
}

/// The mark of a run is a limit, which others of the same user can set.
#[tokio::test]
async fn an_older_process_is_never_taken_for_a_script() {
    let folder = Folder::new("older");
    let mut older = std::process::Command::new("sleep").arg("4753").spawn().expect("it starts");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let marks = format!(
        "# Marks.\nimport resource\nown = resource.prlimit(0, 15)[0]\n\
         resource.prlimit({}, 15, (own // 10**6 * 10**6 + 999999, -1))\nprint('marked')",
        older.id()
    );
    write(&folder, "tools/marks.py", &marks);
    let mut server = tokio::process::Command::new(zcp_tests::examples::zcp());
    server.args(["run", "marks"]).current_dir(&folder.0);
    let done = server.output().await.expect("it runs");
    assert!(String::from_utf8_lossy(&done.stdout).contains("marked"), "{done:?}");
    assert_eq!(older.try_wait().expect("it is ours"), None, "it was killed");
    older.kill().expect("it is ours");
    older.wait().expect("it ends");
}

#[tokio::test]
async fn a_failing_secret_shows_no_command_line() {
    let folder = Folder::new("failing");
    let tool = |reference: &str| format!("# Tells.\n# @env KEY={reference}\necho hi");
    write(&folder, "tools/fails.sh", &tool("secret://cmd/sh -c 'exit 3 # pass-phrase'"));
    write(&folder, "tools/lacks.sh", &tool("secret://cmd/no-such-program --token pass-phrase"));
    write(&folder, "tools/file.sh", &tool("secret://file//etc/pass-phrase"));
    let mut client = serve(&folder, &[]).await;
    for (tool, why) in [("fails", "exit code 3"), ("lacks", "not in PATH"), ("file", "not found")] {
        let refused = result(&mut client, tool, json!({})).await;
        assert!(text(&refused).contains(why), "{refused}");
        assert!(!refused.to_string().contains("pass-phrase"), "{refused}");
    }
}

#[tokio::test]
async fn a_long_output_is_read_in_parts_without_its_secrets() {
    let folder = Folder::new("parts");
    // Letters of three bytes, then bytes that are no text, and a secret across the end of a part.
    let tool = "# Tells.\n# @env KEY=secret://env/OWN_KEY\nimport os, sys\n\
                part = 10 * 1024 * 1024\nkey = os.environ['KEY'].encode()\n\
                sys.stdout.buffer.write(b'x' * (part - 4) + key + '\\u20ac'.encode() * 1000 + key + b'\\xff' + key)";
    write(&folder, "tools/tells.py", tool);
    let scripts = Scripts::folder(&folder.0).env("OWN_KEY", "the-long-key");
    let mut client = PipeClient::open(scripts.open().expect("it opens").server(), LAST).await;
    let said = result(&mut client, "tells", json!({})).await;
    let content = said["content"].as_array().expect("content");
    let mut uri = content.iter().find_map(|one| one["uri"].as_str()).expect("a link").to_owned();
    let mut lengths = vec![];
    loop {
        let read = client.ask(request(1, "resources/read", json!({ "uri": uri }))).await;
        let parts = read["result"]["contents"].as_array().unwrap_or_else(|| panic!("{read:.300}"));
        let shown = parts[0].to_string();
        assert!(!shown.contains("the-long-key"), "it was shown");
        lengths.push(parts[0]["text"].as_str().or(parts[0]["blob"].as_str()).map(str::len));
        match parts.get(1).and_then(|next| next["uri"].as_str()) {
            Some(next) => uri = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(lengths.len(), 2, "{lengths:?}");
    // The part is as long as it may be, and the secret that begins in it is one word.
    assert_eq!(lengths[0], Some(10 * 1024 * 1024 - 4 + "[secret]".len()), "{lengths:?}");
}

/// The server opens files for scripts with its own rights: `/proc/self` would be the server.
#[tokio::test]
async fn the_server_reads_no_kernel_files_for_a_script() {
    let folder = Folder::new("kernel");
    let all = "for file in /proc/self/environ /proc/$PPID/environ /proc/self/cmdline link /sys/kernel/mm/transparent_hugepage/enabled /dev/null; do\n\
               echo \"file $file\" >> \"$ZCP_OUT\"; done";
    std::os::unix::fs::symlink("/proc/self/environ", folder.0.join("link")).expect("linked");
    for (name, rules) in
        [("whole", "# @sandbox\n"), ("part", "# @sandbox no-network\n"), ("free", "")]
    {
        write(&folder, &format!("tools/{name}.sh"), &format!("# Tries.\n{rules}{all}"));
    }
    let passwd = "# Tries.\n# @sandbox\necho 'file /etc/passwd' >> \"$ZCP_OUT\"";
    write(&folder, "tools/system.sh", passwd);
    for tool in ["whole", "part", "free", "system"] {
        let mut server = tokio::process::Command::new(zcp_tests::examples::zcp());
        server.args(["run", tool]).current_dir(&folder.0).env("OF_THE_SERVER", "topsecret");
        let done = server.output().await.expect("it runs");
        let said = String::from_utf8_lossy(&done.stdout);
        for content in ["topsecret", "OF_THE_SERVER", "madvise", "root:", "run\0"] {
            assert!(!said.contains(content), "{tool}: {said}");
        }
        assert!(said.contains("environ: it is not where") || tool == "system", "{tool}: {said}");
    }
}

/// `SOCK_RAW` makes a datagram socket of a Unix socket.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_sandbox_refuses_other_pairs_and_shared_memory() {
    let folder = Folder::new("pairs");
    let lines = "for kind in [1, 2, 3, 4, 5]: attempt(kind, lambda: socket.socketpair(socket.AF_UNIX, kind) and 'pair')\n\
                 libc = ctypes.CDLL(None, use_errno=True)\n\
                 def call(*words):\n    done = libc.syscall(*[ctypes.c_long(word) for word in words])\n    \
                 return ctypes.get_errno() if done == -1 else 'done'\n\
                 print([call(number, 0, 0, 0) for number in [29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241]])";
    write(&folder, "tools/pairs.py", &tries("no-network", lines));
    let mut client = serve(&folder, &[]).await;
    let said = result(&mut client, "pairs", json!({})).await;
    let expected = format!("1 done pair\n2 97\n3 97\n4 97\n5 done pair\n{:?}", [1; 13]);
    assert_eq!(text(&said), expected, "{said}");
}

#[tokio::test]
async fn the_project_s_sandbox_holds_for_what_is_no_tool() {
    let (folder, elsewhere) = (Folder::new("no-tools"), Folder::new("no-tools-elsewhere"));
    let outside = elsewhere.0.join("outside.txt");
    fs::write(&outside, "TOP-SECRET").expect("written");
    let program = format!(
        "#!/usr/bin/env bash\n# Shows.\necho inside; ulimit -n; cat {}; exit 0",
        outside.display()
    );
    let limits = "[defaults]\nsandbox = true\n[defaults.limits]\nfiles = 99\n";
    write(&folder, "zcp.toml", limits);
    write(&folder, "resources/now.sh", &program);
    write(&folder, "prompts/shown.sh", &program);
    let mut client = serve(&folder, &[]).await;
    let listed = client.ask(request(1, "resources/list", json!({}))).await;
    let uri = listed["result"]["resources"][0]["uri"].clone();
    let read = client.ask(request(2, "resources/read", json!({ "uri": uri }))).await;
    let prompt = client.ask(request(3, "prompts/get", json!({ "name": "shown" }))).await;
    for answer in [read, prompt] {
        let answer = answer["result"].to_string();
        assert!(answer.contains("inside\\n99"), "{answer}");
        assert!(!answer.contains("TOP-SECRET"), "{answer}");
    }
}

#[tokio::test]
async fn a_link_made_by_one_script_widens_no_other_sandbox() {
    let (folder, elsewhere) = (Folder::new("planted"), Folder::new("planted-elsewhere"));
    let outside = elsewhere.0.join("outside.txt");
    fs::write(&outside, "TOP-SECRET").expect("written");
    write(&folder, "data/in/own.txt", "own");
    let plants = format!(
        "# Plants.\n# @sandbox\n# @sandbox write data\nrm -r data/in\nln -s {} data/in\necho done",
        elsewhere.0.display()
    );
    let reads = format!(
        "# Reads.\n# @sandbox\n# @sandbox read data/in\ncat data/in/*\n\
         echo \"file {}\" >> \"$ZCP_OUT\"\nsleep 0.2",
        outside.display()
    );
    write(&folder, "tools/plants.sh", &plants);
    write(&folder, "tools/reads.sh", &reads);
    let mut client = serve(&folder, &[]).await;
    let read = result(&mut client, "reads", json!({})).await;
    assert!(text(&read).contains("own"), "{read}");
    assert_eq!(text(&result(&mut client, "plants", json!({})).await), "done");
    let read = result(&mut client, "reads", json!({})).await;
    assert!(!read.to_string().contains("TOP-SECRET"), "{read}");
}

#[tokio::test]
async fn a_kept_output_is_read_in_its_session_only() {
    let folder = Folder::new("kept-apart");
    write(&folder, "tools/long.sh", "# Long.\n# @limit output 1KiB\nseq 10000");
    let server = HttpServer::new(open(&folder).server()).await;
    let (own, other) = (server.open(LAST).await, server.open(LAST).await);
    let said = own.ask(&request(1, "tools/call", call("long", json!({})))).await;
    let content = said["result"]["content"].as_array().expect("content");
    let uri = content.iter().find_map(|one| one["uri"].as_str()).expect("a link");
    let read = request(2, "resources/read", json!({ "uri": uri }));
    let answer = own.ask(&read).await;
    assert!(answer["result"]["contents"][0]["text"].is_string(), "{answer:.300}");
    let answer = other.ask(&read).await;
    assert!(answer["error"].is_object(), "{answer:.300}");
}

#[tokio::test]
async fn a_name_that_a_script_chose_loosens_no_sandbox() {
    let (folder, elsewhere) = (Folder::new("named"), Folder::new("named-elsewhere"));
    let outside = elsewhere.0.join("outside.txt");
    fs::write(&outside, "TOP-SECRET").expect("written");
    let outside = outside.display();
    let rules = format!(
        "[defaults]\nsandbox = true\n[tools.reader]\nsandbox = {{ read = [\"{outside}\"] }}\n\
         [tools.second]\nsandbox = {{ read = [\"{outside}\"] }}\n"
    );
    write(&folder, "zcp.toml", &rules);
    write(&folder, "tools/first.sh", &format!("# Reads.\n# @name reader\ncat {outside}"));
    write(&folder, "tools/second.sh", &format!("# Reads.\n# @name other\ncat {outside}"));
    let mut client = serve(&folder, &[]).await;
    let read = result(&mut client, "reader", json!({})).await;
    assert!(!read.to_string().contains("TOP-SECRET"), "{read}");
    // The project names this one by its file.
    assert_eq!(text(&result(&mut client, "other", json!({})).await), "TOP-SECRET");
}

#[tokio::test]
async fn an_entry_of_a_file_is_not_for_who_takes_its_name() {
    let folder = Folder::new("taken-name");
    let rules = "[tools.second]\nenv = { TOKEN = \"given\" }\nenv_allow = [\"ALLOWED\"]\n";
    write(&folder, "zcp.toml", rules);
    let shows = |name: &str| format!("# Shows.\n# @name {name}\necho \"<$TOKEN$ALLOWED>\"");
    write(&folder, "tools/first.sh", &shows("second"));
    write(&folder, "tools/second.sh", &shows("other"));
    let scripts = Scripts::folder(&folder.0).command(zcp_tests::examples::zcp());
    let scripts = scripts.env("ALLOWED", "too").open().expect("it opens");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(text(&result(&mut client, "second", json!({})).await), "<>");
    assert_eq!(text(&result(&mut client, "other", json!({})).await), "<giventoo>");
}

#[tokio::test]
async fn a_link_on_the_way_does_not_hide_what_may_be_written() {
    for (name, written, read) in
        [("alias-read", "data", "alias/in"), ("alias-write", "alias", "data/in")]
    {
        let (folder, elsewhere) = (Folder::new(name), Folder::new(&format!("{name}-elsewhere")));
        let outside = elsewhere.0.join("outside.txt");
        fs::write(&outside, "TOP-SECRET").expect("written");
        write(&folder, "data/in/own.txt", "own");
        std::os::unix::fs::symlink("data", folder.0.join("alias")).expect("a link");
        let plants = format!(
            "# Plants.\n# @sandbox\n# @sandbox write {written}\nrm -r data/in\nln -s {} data/in\n\
             echo done",
            elsewhere.0.display()
        );
        let reads = format!(
            "# Reads.\n# @sandbox\n# @sandbox read {read}\ncat {read}/*\n\
             echo \"file {}\" >> \"$ZCP_OUT\"\nsleep 0.2",
            outside.display()
        );
        write(&folder, "tools/plants.sh", &plants);
        write(&folder, "tools/reads.sh", &reads);
        let mut client = serve(&folder, &[]).await;
        let first = result(&mut client, "reads", json!({})).await;
        assert!(text(&first).contains("own"), "{name}: {first}");
        assert_eq!(text(&result(&mut client, "plants", json!({})).await), "done", "{name}");
        let second = result(&mut client, "reads", json!({})).await;
        assert!(!second.to_string().contains("TOP-SECRET"), "{name}: {second}");
    }
}

#[tokio::test]
async fn a_sandbox_writes_nothing_that_runs_outside_of_it() {
    let (folder, outside) = (Folder::new("reserved"), Folder::new("reserved-outside"));
    for file in ["data/a.txt", "bin/x", "notes.txt", "resources/x.txt", "VERSION", ".env"] {
        write(&folder, file, "1");
    }
    std::os::unix::fs::symlink("tools", folder.0.join("alias")).expect("a link");
    let home = outside.0.join("home");
    fs::create_dir_all(home.join("programs")).expect("a folder");
    let command = zcp_tests::examples::zcp();
    let temporary = outside.0.join("tmp");
    fs::create_dir_all(&temporary).expect("a folder");
    let above = folder.0.parent().expect("a folder").to_path_buf();
    let refused = [
        ".",
        "..",
        "/",
        "tools",
        "tools/deeper",
        "alias",
        "alias/deeper",
        "data/../tools",
        "resources",
        "prompts",
        "completions",
        "providers",
        "server.d",
        "skills",
        "ui",
        "lib",
        "bin",
        "config",
        "zcp.toml",
        "zcp.lock",
        "policy.toml",
        ".env",
        ".git",
        "notes.txt",
        "/usr",
        "/usr/bin",
        "/etc",
        "/proc",
        "secrets",
        "secrets/token",
        "logs",
    ]
    .map(std::path::PathBuf::from);
    let refused = refused.into_iter().chain([
        above,
        home.clone(),
        home.join(".config/deeper"),
        home.join("programs"),
        command.clone(),
        command.parent().expect("a folder").to_path_buf(),
        temporary.clone(),
        outside.0.clone(),
    ]);
    let allowed = ["data", "data/deep", "missing", "./data/../data"].map(std::path::PathBuf::from);
    let allowed = allowed.into_iter().chain([home.join("data"), outside.0.join("data")]);
    write(&folder, "zcp.lock", r#"{ "version": 2, "mounts": {} }"#);
    write(&folder, "policy.toml", "default = 'allow'\naudit = 'logs/audit.jsonl'\n");
    write(&folder, "secrets/token", "x");
    let settings = "[defaults]\nenv = { TOKEN = \"secret://file/secrets/token\" }\n";
    write(&folder, "zcp.toml", settings);
    let cases = refused.map(|path| (path, true)).chain(allowed.map(|path| (path, false)));
    for (path, is_refused) in cases {
        let path = path.display();
        write(&folder, "tools/t.sh", &format!("# Writes.\n# @sandbox write {path}\necho x"));
        let scripts = Scripts::folder(&folder.0).command(&command).temporary(&temporary);
        let programs =
            std::env::join_paths([home.join("programs"), "/usr/bin".into(), "/bin".into()]);
        let programs = programs.expect("a PATH").into_string().expect("text");
        let scripts = scripts.env("HOME", home.to_string_lossy()).env("PATH", programs);
        let scripts = scripts.open().expect("it opens");
        let mistakes = scripts.mistakes().borrow().join("\n");
        let is_offered = !scripts.programs().borrow().is_empty();
        assert_eq!(mistakes.contains("Name a folder for data"), is_refused, "{path}: {mistakes}");
        assert_eq!(is_offered, !is_refused, "{path}: {mistakes}");
    }
}

#[tokio::test]
async fn the_project_s_sandbox_writes_data_only() {
    let folder = Folder::new("reserved-defaults");
    write(&folder, "zcp.toml", "[defaults]\nsandbox = { write = [\".\", \"data\"] }\n");
    write(&folder, "data/old.txt", "old");
    let writes = "# Writes.\necho x > data/new.txt && echo data\necho x > tools/new.sh || echo no";
    write(&folder, "tools/writes.sh", writes);
    write(&folder, "resources/made.sh", "#!/bin/sh\necho x > tools/made.sh || echo no\n");
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().join("\n");
    assert!(mistakes.contains("must not write `.`"), "{mistakes}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let answer = result(&mut client, "writes", json!({})).await;
    assert_eq!(text(&answer).lines().collect::<Vec<_>>(), ["data", "no"], "{answer}");
    assert!(!folder.0.join("tools/new.sh").exists());
}

/// A completion may name any program of the project: not one that a sandbox may write.
#[tokio::test]
async fn a_program_that_a_sandbox_may_write_is_not_run() {
    let folder = Folder::new("writable-program");
    let provider = "#!/bin/sh\necho ran > \"$ZCP_PROJECT/ran\"\necho '[\"a\"]'\n";
    write(&folder, "data/complete.sh", provider);
    write(&folder, "server.d/server.meta.json", "{}");
    let register =
        r#"{ "version": 1, "completions": [{ "name": "p", "path": "data/complete.sh" }] }"#;
    write(&folder, "server.d/register.json", register);
    write(&folder, "prompts/p/p.txt", "Hello ${a}");
    let meta = r#"{ "name": "p", "path": "p/p.txt", "arguments": { "type": "object",
        "properties": { "a": { "type": "string" } } } }"#;
    write(&folder, "prompts/p/p.meta.json", meta);
    for (rule, runs) in [("", true), ("# @sandbox write data\n", false)] {
        let _ = fs::remove_file(folder.0.join("ran"));
        write(&folder, "tools/t/tool.sh", &format!("# Writes.\n{rule}echo x"));
        let mut client = PipeClient::open(open(&folder).server(), LAST).await;
        let params = json!({ "ref": { "type": "ref/prompt", "name": "p" },
            "argument": { "name": "a", "value": "" } });
        let answer = client.ask(request(5, "completion/complete", params)).await;
        assert_eq!(folder.0.join("ran").exists(), runs, "{rule:?}: {answer}");
    }
}
