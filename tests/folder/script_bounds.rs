//! What bounds a script: its time, its processes, its environment, its sandbox.

use futures_util::future::join_all;
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::{Duration, Instant},
};
use zcp_scripts::Scripts;
use zcp_tests::{
    call,
    folder::Folder,
    http::HttpServer,
    modern_as, notification,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, running, serve, until, write},
    text,
};

#[tokio::test]
async fn a_script_cannot_touch_the_protocol() {
    let folder = Folder::new("pipes");
    let mut client = serve(
        &folder,
        &[
            ("tools/reads.sh", "# @args env\nread -r line; echo \"got:$line\""),
            ("tools/looks.sh", "ls /proc/self/fd | tr '\\n' ' '"),
        ],
    )
    .await;
    assert_eq!(text(&result(&mut client, "reads", json!({})).await), "got:");
    let open = result(&mut client, "looks", json!({})).await;
    let numbers = |text: &str| -> Vec<u32> {
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    // What this test was started with is nobody's, and any shell has it.
    let plain = std::process::Command::new("bash").args(["-c", "ls /proc/self/fd"]).output();
    let plain = numbers(&String::from_utf8_lossy(&plain.expect("bash runs").stdout));
    let more: Vec<u32> =
        numbers(text(&open)).into_iter().filter(|number| !plain.contains(number)).collect();
    assert_eq!(more.len(), 2, "the ends of the channel and nothing else: {more:?}");
    assert!(more.iter().all(|number| *number >= 200), "{more:?}");
}

#[tokio::test]
async fn time_runs_out_and_takes_all_processes_along() {
    let folder = Folder::new("late");
    let mut client = serve(&folder, &[
        ("tools/slow.sh", "# Slow.\n# @timeout 1s\n# @timeout-hint Ask for less.\nsleep 4711 &\nsleep 4711"),
        ("tools/stubborn.sh", "# Slow.\n# @timeout 1s\ntrap '' TERM\nsleep 4712 & while true; do sleep 0.1; done"),
        ("tools/lively.sh", "# Slow.\n# @timeout 1s\nfor i in 1 2 3 4; do echo \"progress $i/4\" >> \"$ZCP_OUT\"; sleep 0.5; done; echo done"),
    ])
    .await;
    let late = result(&mut client, "slow", json!({})).await;
    assert_eq!(late["structuredContent"]["error"]["type"], "timeout", "{late}");
    assert!(text(&late).contains("1s") && text(&late).contains("Ask for less."), "{late}");
    result(&mut client, "stubborn", json!({})).await;
    assert_eq!(text(&result(&mut client, "lively", json!({})).await), "done");
    until("they are gone", || {
        running("sleep 4711") + running("sleep\x004711") + running("sleep\x004712") == 0
    })
    .await;
}

#[tokio::test]
async fn whoever_cancels_ends_the_script() {
    let folder = Folder::new("cancelled");
    let mut client = serve(
        &folder,
        &[("tools/wait.sh", "echo \"progress 1\" >> \"$ZCP_OUT\"\n(sleep 4713 & sleep 4713)")],
    )
    .await;
    let mut params = call("wait", json!({}));
    params["_meta"] = json!({ "progressToken": "p" });
    client.send(request(1, "tools/call", params)).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    until("it runs", || running("sleep\x004713") == 2).await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    until("it is gone", || running("sleep\x004713") == 0).await;
    // The conversation goes on.
    assert_eq!(client.ask(request(2, "ping", json!({}))).await["result"], json!({}));
}

#[tokio::test]
async fn what_a_script_leaves_behind_is_ended() {
    let folder = Folder::new("left");
    let mut client =
        serve(&folder, &[("tools/leaves.sh", "sleep 4714 & sleep 4714 & echo done")]).await;
    let begun = Instant::now();
    assert_eq!(text(&result(&mut client, "leaves", json!({})).await), "done");
    assert!(begun.elapsed() < Duration::from_secs(5));
    until("they are gone", || running("sleep\x004714") == 0).await;
}

#[tokio::test]
async fn the_environment_is_what_was_allowed() {
    let folder = Folder::new("environment");
    write(
        &folder,
        "tools/env.sh",
        "# Shows.\n# @env SEEN\n# @env OWN=mine\nenv | cut -d= -f1 | sort | tr '\\n' ' '; echo \"$SEEN $OWN\"",
    );
    let scripts = Scripts::folder(&folder.0).env("SEEN", "yes").env("SECRET", "no");
    let scripts = scripts.open().expect("it opens");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let shown = result(&mut client, "env", json!({})).await;
    let shown = text(&shown);
    assert!(shown.ends_with("yes mine") && !shown.contains("SECRET"), "{shown}");
    for name in ["PATH", "ZCP_IN", "ZCP_OUT", "ZCP_PROJECT", "ZCP_SDK", "ZCP_TOOL"] {
        assert!(shown.split_whitespace().any(|seen| seen == name), "{name}: {shown}");
    }
}

#[tokio::test]
async fn what_goes_away_from_its_group_is_found_and_ended() {
    let folder = Folder::new("away");
    let mut client = serve(
        &folder,
        &[
            ("tools/leaves.sh", "setsid sleep 4715 & sleep 0.1; echo done"),
            ("tools/bare.sh", "setsid env -i /bin/sleep 4721 >/dev/null 2>&1 & sleep 0.1; echo done"),
            ("tools/daemon.py", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        for fd in range(3): os.close(fd)\n        os.execvp('sleep', ['sleep', '4716'])\n    os._exit(0)\nprint('done')"),
        ],
    )
    .await;
    for tool in ["leaves", "daemon", "bare"] {
        assert_eq!(text(&result(&mut client, tool, json!({})).await), "done");
    }
    until("they are gone", || {
        running("sleep\x004715") + running("sleep\x004716") + running("sleep\x004721") == 0
    })
    .await;
}

/// One that writes on and on would keep its output open for ever.
#[tokio::test]
async fn what_a_script_left_talking_does_not_hold_its_answer() {
    let folder = Folder::new("talking");
    let talk = |way: &str| {
        format!(
            "setsid env -i sh -c 'while :; do echo x{way}; sleep 0.05; done' & sleep 0.1; echo done"
        )
    };
    let (out, err) = (talk(""), talk(" >&2"));
    let files = [("tools/talks.sh", out.as_str()), ("tools/complains.sh", err.as_str())];
    let mut client = serve(&folder, &files).await;
    for tool in ["talks", "complains"] {
        let answer =
            tokio::time::timeout(Duration::from_secs(4), result(&mut client, tool, json!({})));
        let answer = answer.await.unwrap_or_else(|_| panic!("{tool} is not answered"));
        assert!(text(&answer).contains("done"), "{answer}");
    }
    until("they are gone", || running("while :; do echo x") == 0).await;
}

/// Editors write into the file that is there.
#[tokio::test]
async fn a_call_ends_as_the_version_it_began_as() {
    let folder = Folder::new("versions");
    let version = |name: &str| {
        format!(
            "#!/usr/bin/env bash\n# Tells.\necho {name}1 $(basename \"$0\") ${{BASH_SOURCE[0]##*/}} $1\ntouch begun\nuntil [ -e go ]; do sleep 0.02; done\necho {name}2\nexit 3\n"
        )
    };
    let mut client = serve(&folder, &[("tools/tells.sh", &version("old"))]).await;
    client.send(request(1, "tools/call", call("tells", json!({})))).await;
    until("it has begun", || folder.0.join("begun").exists()).await;
    write(&folder, "tools/tells.sh", &version("new-and-longer-"));
    fs::write(folder.0.join("go"), "").expect("written");
    let answer = loop {
        let message = client.next().await;
        if message["id"] == 1 {
            break message;
        }
    };
    let said = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(said, "old1 tells.sh tells.sh\nold2", "{answer}");
    assert!(answer.to_string().contains("exit code 3"), "{answer}");
    let again = result(&mut client, "tells", json!({})).await;
    assert!(again["content"][0].to_string().contains("new-and-longer-2"), "{again}");
}

/// Users who think keep nobody from working.
#[tokio::test]
async fn whoever_waits_for_a_user_takes_no_place() {
    let folder = Folder::new("thinking");
    let asks = "# Asks.\n. \"$ZCP_SDK/zcp.sh\"\nzcp_ask go 'May I?'\necho asked";
    let files = [("tools/asks.sh", asks), ("tools/plain.sh", "# Plain.\necho plain")];
    files.iter().for_each(|(name, content)| write(&folder, name, content));
    let server = zcp_tests::script::open(&folder).server();
    let mut client = PipeClient::open(server, LAST).await;
    for id in 1000..1070 {
        client.send(request(id, "tools/call", call("asks", json!({})))).await;
    }
    client.send(request(1, "tools/call", call("plain", json!({})))).await;
    let answer = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let message = client.next().await;
            if message["id"] == 1 && message.get("result").is_some() {
                break message;
            }
        }
    });
    assert_eq!(text(&answer.await.expect("it is answered")["result"]), "plain");
}

#[tokio::test]
async fn limits_outlive_a_change_of_the_folder() {
    let folder = Folder::new("limits-stay");
    let rare = "# Rare.\n# @limit rate 1\necho $RANDOM > \"tools/x$RANDOM.sh\"; echo ran";
    let mut client = serve(&folder, &[("tools/rare.sh", rare)]).await;
    assert_eq!(text(&result(&mut client, "rare", json!({})).await), "ran");
    let again = result(&mut client, "rare", json!({})).await;
    assert!(text(&again).contains("too often"), "{again}");
}

#[tokio::test]
async fn memory_that_is_only_reserved_is_not_counted() {
    let folder = Folder::new("reserved");
    let node = "// Says so.\n// @limit memory 300MiB\nconsole.log('fine')";
    let mut client = serve(&folder, &[("tools/modest.js", node)]).await;
    let fine = result(&mut client, "modest", json!({})).await;
    assert_eq!(text(&fine), "fine", "{fine}");
}

#[tokio::test]
async fn what_was_said_before_time_ran_out_is_told() {
    let folder = Folder::new("late-words");
    let slow = "# Slow.\n# @timeout 1s\necho half of it; echo trouble >&2; sleep 60";
    let mut client = serve(&folder, &[("tools/slow.sh", slow)]).await;
    let late = result(&mut client, "slow", json!({})).await.to_string();
    for part in ["timed out after 1s", "half of it", "trouble", "(TERM)"] {
        assert!(late.contains(part), "{part}: {late}");
    }
}

#[tokio::test]
async fn a_script_may_not_take_the_whole_machine() {
    let folder = Folder::new("greedy");
    let mut client = serve(
        &folder,
        &[
            ("tools/bomb.sh", "# Forks.\n# @limit processes 40\nbomb() { sleep 4717 & bomb; }; bomb"),
            // It leaves the group of the script, and has a new parent and no streams of it.
            ("tools/away.sh", "# Forks.\n# @limit processes 40\nsetsid bash -c '(bomb() { sleep 4791 & bomb; }; bomb) &' < /dev/null > /dev/null 2>&1\nsleep 4791"),
            ("tools/hog.py", "# Takes memory.\n# @limit memory 200MiB\nimport time\nall = []\nwhile True: all.append(bytearray(10 << 20)); time.sleep(0.01)"),
            ("tools/busy.sh", "# Computes.\n# @limit cpu 1s\nwhile true; do :; done"),
            ("tools/many.py", "# Opens files.\n# @limit files 32\nimport os\nfor _ in range(100): os.open('/dev/null', 0)"),
            ("tools/fine.sh", "echo fine"),
        ],
    )
    .await;
    let words = |result: &Value| {
        assert_eq!(result["isError"], true, "{result}");
        result["content"].to_string()
    };
    for tool in ["bomb", "away"] {
        let bomb = words(&result(&mut client, tool, json!({})).await);
        assert!(bomb.contains("more than 40 processes"), "{tool}: {bomb}");
    }
    let hog = words(&result(&mut client, "hog", json!({})).await);
    assert!(hog.contains("memory") || hog.contains("Memory"), "{hog}");
    let busy = words(&result(&mut client, "busy", json!({})).await);
    assert!(busy.contains("more than 1 s of processor time"), "{busy}");
    let many = words(&result(&mut client, "many", json!({})).await);
    assert!(many.contains("Too many open files"), "{many}");
    assert_eq!(text(&result(&mut client, "fine", json!({})).await), "fine");
    until("they are gone", || {
        running("sleep\x004717") + running("sleep\x004791") + running("bomb()") == 0
    })
    .await;
}

#[tokio::test]
async fn calls_may_be_limited_in_number() {
    let folder = Folder::new("rates");
    let mut client = serve(
        &folder,
        &[
            ("tools/seldom.sh", "# Seldom.\n# @limit rate 2\necho yes"),
            (
                "tools/alone.sh",
                "# Alone.\n# @limit concurrency 1\nmkdir here || exit 1; sleep 0.1; rmdir here",
            ),
        ],
    )
    .await;
    for _ in 0..2 {
        assert_eq!(text(&result(&mut client, "seldom", json!({})).await), "yes");
    }
    let refused = result(&mut client, "seldom", json!({})).await;
    assert!(text(&refused).contains("too often"), "{refused}");
    for id in 0..5 {
        client.send(request(id, "tools/call", call("alone", json!({})))).await;
    }
    for _ in 0..5 {
        let answer = client.next().await;
        assert_ne!(answer["result"]["isError"], true, "{answer}");
    }
}

/// Clients of some languages start servers with pipes, those of others with sockets.
#[tokio::test]
async fn a_client_that_is_gone_takes_its_scripts_along() {
    let folder = Folder::new("left");
    write(&folder, "tools/wait.sh", "sleep 4723");
    let call = modern_as(1, "tools/call", call("wait", json!({})), json!({}));
    for is_socket in [false, true] {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        let mut server = std::process::Command::new(zcp_tests::examples::zcp())
            .args(["serve", "--stdio"])
            .arg(&folder.0)
            .stdin(std::process::Stdio::piped())
            .stdout(match is_socket {
                true => OwnedFd::from(theirs).into(),
                false => std::process::Stdio::piped(),
            })
            .spawn()
            .expect("it starts");
        let mut input = server.stdin.take().expect("its input");
        writeln!(input, "{call}").expect("it reads");
        until("it runs", || running("sleep\x004723") == 1).await;
        let left = Instant::now();
        drop((ours, input, server.stdout.take()));
        assert!(server.wait().expect("it ends").success());
        // Those who only end its input are waited for, for longer than this.
        assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
        assert_eq!(running("sleep\x004723"), 0, "its script goes on");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_nothing() {
    let (folder, temporary) = (Folder::new("killed"), Folder::new("killed-temporary"));
    write(&folder, "tools/wait.sh", "sleep 4718 & setsid sleep 4718 & sleep 4718");
    let mut server = tokio::process::Command::new(zcp_tests::examples::zcp())
        .args(["serve", "--stdio"])
        .arg(&folder.0)
        .env("TMPDIR", &temporary.0)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("its input");
    let call = modern_as(1, "tools/call", call("wait", json!({})), json!({}));
    tokio::io::AsyncWriteExt::write_all(&mut input, format!("{call}\n").as_bytes())
        .await
        .expect("it reads");
    until("it runs", || running("sleep\x004718") == 3).await;
    server.start_kill().expect("it can be killed");
    server.wait().await.expect("it is gone");
    until("they are gone", || running("sleep\x004718") == 0).await;
    let left = || fs::read_dir(&temporary.0).expect("the folder").count();
    until("nothing is left", || left() == 0).await;
}

/// The server reads files for scripts: none that they may not read themselves.
#[tokio::test]
async fn a_sandbox_has_no_way_through_the_server() {
    let (folder, secret) = (Folder::new("through"), Folder::new("through-secret"));
    let outside = secret.0.join("secret.txt");
    fs::write(&outside, "the secret").expect("written");
    let outside = outside.display();
    let said = format!("# Tries.\n# @sandbox\necho 'file {outside}' >> \"$ZCP_OUT\"");
    let result_of = format!("{{\"content\":[{{\"path\":\"{outside}\"}}],\"isError\":false}}");
    let printed = format!("# Tries.\n# @sandbox\n# @output-files\necho '{result_of}'");
    let linked = format!(
        "# Tries.\n# @sandbox\n# @sandbox write data\nln -sf {outside} data/here.txt; echo 'file data/here.txt' >> \"$ZCP_OUT\""
    );
    let others = "# Tries.\n# @sandbox\nls \"$ZCP_SDK/../calls\" \"$ZCP_SDK/../outputs\" 2>&1";
    let own = "# May.\n# @sandbox\n# @output-files\necho mine > \"$TMPDIR/own.txt\"\necho \"{\\\"content\\\":[{\\\"path\\\":\\\"$TMPDIR/own.txt\\\"}]}\"";
    let tools =
        [("said", said.as_str()), ("printed", &printed), ("linked", &linked), ("others", others)];
    fs::create_dir(folder.0.join("data")).expect("a folder");
    for (name, content) in tools.iter().chain(&[("own", own)]) {
        write(&folder, &format!("tools/{name}.sh"), content);
    }
    let mut client = serve(&folder, &[]).await;
    for (tool, _) in tools {
        let answer = result(&mut client, tool, json!({})).await.to_string();
        assert!(!answer.contains("the secret") && !answer.contains("call-"), "{tool}: {answer}");
        let refused = ["not where files of an answer may be", "ermission denied"];
        assert!(refused.iter().any(|words| answer.contains(words)), "{tool}: {answer}");
    }
    let mine = result(&mut client, "own", json!({})).await;
    assert!(mine.to_string().contains("mine\\n"), "{mine}");
}

#[tokio::test]
async fn a_sandbox_stops_what_it_forbids_and_says_which_rule() {
    let folder = Folder::new("sandbox");
    let secret = Folder::new("sandbox-secret");
    fs::write(secret.0.join("secret.txt"), "the secret").expect("written");
    let outside = secret.0.join("secret.txt").to_string_lossy().into_owned();
    let python = |rules: &str, line: &str| {
        format!("# Tries.\n{rules}\nimport os, socket, sys\n{line}\nprint('done')")
    };
    let closed = "# @sandbox";
    let mut victim = std::process::Command::new("sleep").arg("4719").spawn().expect("it runs");
    let kill = format!("os.kill({}, 15)", victim.id());
    let read = format!("print(open({outside:?}).read())");
    let written = "open('tools/new.txt', 'w')";
    let connect = "socket.create_connection(('127.0.0.1', 1))";
    let local = "socket.socket(socket.AF_UNIX)";
    let fine = "import tempfile, subprocess\nprint(open('inside.txt').read())\nopen(tempfile.mktemp(), 'w').write('x')\nsubprocess.run(['true'], check=True)";
    let shell = "# Tries.\n# @sandbox read-only\necho x > here.txt";
    let tools = [
        ("reads", python(closed, &read), "`read`"),
        ("writes", python(closed, written), "`write`"),
        ("connects", python(closed, connect), "`network`"),
        ("opens", python("# @sandbox no-network", local), "`network`"),
        ("signals", python("# @sandbox no-signals", &kill), "`signals`"),
        ("shell", shell.to_owned(), "`write`"),
    ];
    write_all(&folder, &tools);
    write(&folder, "tools/fine.py", &python(closed, fine));
    write(
        &folder,
        "tools/reader.py",
        &python(&format!("# @sandbox read {}", secret.0.display()), &read),
    );
    write(&folder, "tools/writer.py", &python("# @sandbox write out", "open('out/new.txt', 'w')"));
    write(&folder, "inside.txt", "inside");
    fs::create_dir(folder.0.join("out")).expect("a folder");
    let mut client = serve(&folder, &[]).await;
    for (tool, _, rule) in &tools {
        let stopped = result(&mut client, tool, json!({})).await;
        assert_eq!(stopped["isError"], true, "{tool}: {stopped}");
        let said = stopped["content"].to_string();
        assert!(said.contains("sandbox stopped it") && said.contains(rule), "{tool}: {said}");
        assert!(!said.contains("the secret"), "{tool}: {said}");
    }
    for tool in ["fine", "reader", "writer"] {
        let done = result(&mut client, tool, json!({})).await;
        assert!(text(&done).ends_with("done") && done["isError"] != true, "{tool}: {done}");
    }
    assert!(!folder.0.join("here.txt").exists() && !folder.0.join("tools/new.txt").exists());
    let ended = victim.try_wait().expect("it is ours");
    assert_eq!(ended, None, "it was signalled");
    victim.kill().expect("it is ours");
    victim.wait().expect("it ends");
}

fn write_all(folder: &Folder, tools: &[(&str, String, &str)]) {
    for (name, script, _) in tools {
        let ending = if script.contains("import") { "py" } else { "sh" };
        write(folder, &format!("tools/{name}.{ending}"), script);
    }
}

#[tokio::test]
async fn secrets_are_had_by_reference_and_not_shown() {
    let folder = Folder::new("secrets");
    write(&folder, "key.txt", "from-a-file-42\n");
    let tool = |reference: &str| {
        format!(
            "# Tells.\n# @env KEY={reference}\nprintf '%s' \"$KEY\" | wc -c; echo \"$KEY\"; echo \"{{\\\"key\\\": \\\"$KEY\\\"}}\" >&2; exit 1"
        )
    };
    for (name, reference) in [
        ("env", "secret://env/OWN_KEY"),
        ("file", "secret://file/key.txt"),
        ("cmd", "secret://cmd/echo 'from a command'"),
        ("none", "secret://env/NO_SUCH_KEY"),
        ("odd", "secret://moon/x"),
    ] {
        write(&folder, &format!("tools/{name}.sh"), &tool(reference));
    }
    let scripts = Scripts::folder(&folder.0).env("OWN_KEY", "from-the-environment");
    let mut client = PipeClient::open(scripts.open().expect("it opens").server(), LAST).await;
    for (name, length, secret) in [
        ("env", "20", "from-the-environment"),
        ("file", "14", "from-a-file-42"),
        ("cmd", "14", "from a command"),
    ] {
        let shown = result(&mut client, name, json!({})).await;
        assert!(text(&shown).starts_with(length), "{shown}");
        assert!(
            !shown.to_string().contains(secret) && shown.to_string().contains("[secret]"),
            "{shown}"
        );
    }
    for (name, why) in [("none", "secret://env/NO_SUCH_KEY"), ("odd", "env, file, cmd or keychain")]
    {
        let refused = result(&mut client, name, json!({})).await;
        assert!(text(&refused).contains("is not run") && text(&refused).contains(why), "{refused}");
    }
}

#[tokio::test]
async fn the_keychain_tells_secrets() {
    let (folder, programs) = (Folder::new("keychain"), Folder::new("keychain-programs"));
    let keeper =
        "#!/bin/sh\n[ \"$*\" = \"lookup service shop account ann\" ] && echo kept-well-42\n";
    write(&programs, "secret-tool", keeper);
    let tool = |account: &str| {
        format!(
            "# Tells.\n# @env KEY=secret://keychain/shop/{account}\nprintf '%s' \"$KEY\" | wc -c; echo \"$KEY\""
        )
    };
    write(&folder, "tools/ann.sh", &tool("ann"));
    write(&folder, "tools/bob.sh", &tool("bob"));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.0.display());
    let scripts = Scripts::folder(&folder.0).env("PATH", path).open().expect("it opens");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let shown = result(&mut client, "ann", json!({})).await;
    assert_eq!(text(&shown).trim(), "12\n[secret]", "{shown}");
    let refused = result(&mut client, "bob", json!({})).await;
    assert!(text(&refused).contains("secret://keychain/shop/bob"), "{refused}");
}

#[tokio::test]
async fn secrets_are_not_shown_beside_an_answer_either() {
    let folder = Folder::new("secrets-beside");
    let said = "echo \"log warning key=$KEY\" >> \"$ZCP_OUT\"\necho \"text \\\"key=$KEY\\\"\" >> \"$ZCP_OUT\"";
    let long = "echo \"$KEY\"; head -c 300000 /dev/zero | tr '\\0' x";
    let header = "# Tells.\n# @env KEY=secret://env/OWN_KEY";
    write(&folder, "tools/long.sh", &format!("{header}\n{said}\n{long}\n"));
    let fails =
        "\n: MCP_TOOL_\n. \"$MCP_SDK/tool-sdk.sh\"\nmcp_fail -32603 \"login with $KEY failed\"";
    write(&folder, "tools/fails.sh", &format!("{header}\n{fails}\n"));
    let scripts = Scripts::folder(&folder.0).env("OWN_KEY", "from-the-environment");
    let mut client = PipeClient::open(scripts.open().expect("it opens").server(), LAST).await;
    client.ask(request(50, "logging/setLevel", json!({ "level": "debug" }))).await;
    client.send(request(51, "tools/call", call("long", json!({})))).await;
    let mut all = vec![];
    while all.last().is_none_or(|last: &Value| last["id"] != 51) {
        all.push(client.next().await);
    }
    let shown = serde_json::to_string(&all).expect("JSON");
    assert!(all.len() > 1 && shown.contains("key=[secret]"), "{shown:.300}");
    assert!(!shown.contains("from-the-environment"), "it was shown");
    let content = all.last().expect("an answer")["result"]["content"].clone();
    let link = content.as_array().expect("content").iter().find_map(|one| one["uri"].as_str());
    let link = json!({ "uri": link.expect("a link to all of it") });
    let whole = client.ask(request(52, "resources/read", link)).await.to_string();
    assert!(whole.contains("[secret]") && !whole.contains("from-the-environment"));
    let failed = client.ask(request(53, "tools/call", call("fails", json!({})))).await;
    assert_eq!(failed["error"]["message"], "login with [secret] failed", "{failed}");
}

/// A process that took off both of its marks is not ended with its call.
#[tokio::test]
async fn whoever_writes_on_does_not_hold_up_the_server() {
    let folder = Folder::new("floods");
    let flood = "import os\nwhile os.path.exists(\"go\"): os.write(9, b\"\\n\" * 32768)";
    let floods = format!(
        "# Floods.\ntouch go\nfor i in 1 2 3 4; do\n\
         (exec 9>\"$ZCP_OUT\"; ulimit -S -R 7777; exec env -i setsid nice -n 19 timeout 25 python3 -c '{flood}' >/dev/null 2>&1) &\n\
         done\nsleep 1; echo done"
    );
    let mut client = serve(&folder, &[("tools/floods.sh", &floods)]).await;
    let begun = Instant::now();
    client.send(request(7, "tools/call", call("floods", json!({})))).await;
    // They write for 25 seconds.
    let answer = client.next().await;
    let took = begun.elapsed();
    fs::remove_file(folder.0.join("go")).expect("it was made");
    assert!(text(&answer["result"]).contains("done"), "{answer}");
    assert!(took < Duration::from_secs(18), "{took:?}");
}

#[tokio::test]
async fn a_sandbox_keeps_the_mark_of_its_processes() {
    let folder = Folder::new("marks");
    let leaves = "# Leaves.\n# @sandbox\n\
                  (ulimit -S -R 7777; exec env -i setsid sleep 4761 >/dev/null 2>&1) & sleep 0.3; echo done";
    let tries = "# Tries.\n# @sandbox no-network\nimport ctypes, resource\nbefore = resource.prlimit(0, 15)\n\
                 try: resource.prlimit(0, 15, (7777, -1))\nexcept OSError as error: print(error.errno)\n\
                 limit = (ctypes.c_ulong * 2)(7777, 7777)\nlibc = ctypes.CDLL(None, use_errno=True)\n\
                 print(libc.setrlimit(15, limit), ctypes.get_errno(), resource.prlimit(0, 15) == before)\n\
                 resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))";
    let files = [("tools/leaves.sh", leaves), ("tools/tries.py", tries)];
    let mut client = serve(&folder, &files).await;
    let said = result(&mut client, "tries", json!({})).await;
    assert_eq!(text(&said), "1\n-1 1 True", "{said}");
    assert_eq!(text(&result(&mut client, "leaves", json!({})).await), "done");
    until("it is gone", || running("sleep\x004761") == 0).await;
}

#[tokio::test]
async fn a_sandboxed_process_that_the_server_adopts_is_ended() {
    // As the first process of a container is: what loses its parent becomes its child.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("it can be one");
    let folder = Folder::new("adopted");
    let leaves = "# Leaves.\n# @sandbox\n\
                  (setsid -f env -u ZCP_CALL sleep 4764 >/dev/null 2>&1); sleep 0.5; echo done";
    let mut client = serve(&folder, &[("tools/leaves.sh", leaves)]).await;
    assert_eq!(text(&result(&mut client, "leaves", json!({})).await), "done");
    until("it is gone", || running("sleep\x004764") == 0).await;
}

#[tokio::test]
async fn processes_that_left_the_tree_count_as_well() {
    let folder = Folder::new("counted");
    let daemons = "# Forks.\n# @limit processes 8\n\
                   for i in $(seq 20); do setsid -f sleep 4762 >/dev/null 2>&1; done; sleep 20; echo done";
    let mut client = serve(&folder, &[("tools/daemons.sh", daemons)]).await;
    let said = result(&mut client, "daemons", json!({})).await;
    assert!(said.to_string().contains("more than 8 processes"), "{said}");
    until("they are gone", || running("sleep\x004762") == 0).await;
}

#[tokio::test]
async fn what_a_script_keeps_is_limited() {
    let folder = Folder::new("keeps");
    let keeps = |lines: &str| {
        format!(
            "# Keeps.\nimport os, time\nout = open(os.environ['ZCP_OUT'], 'w')\n\
             def keep(key, text): print('keep', key, text, file=out, flush=True)\n{lines}\nprint('done')"
        )
    };
    let many = keeps("for i in range(101): keep(f'k{i}', 'v')\ntime.sleep(20)");
    let large = keeps("for i in range(2): keep(f'k{i}', 'v' * 700000)\ntime.sleep(20)");
    let again = keeps("for i in range(300): keep('k', 'v' * 7000)");
    let files =
        [("tools/many.py", &*many), ("tools/large.py", &*large), ("tools/again.py", &*again)];
    let mut client = serve(&folder, &files).await;
    for tool in ["many", "large"] {
        let said = result(&mut client, tool, json!({})).await;
        assert_eq!(said["isError"], true, "{tool}: {said}");
        assert!(text(&said).contains("keeps more than 100 values"), "{tool}: {said}");
    }
    assert_eq!(text(&result(&mut client, "again", json!({})).await), "done");
}

#[tokio::test]
async fn an_output_names_a_limited_number_of_files() {
    let folder = Folder::new("named");
    let names = "# Names.\n# @output-files\nimport json\nopen('small.txt', 'w').write('small')\n\
                 print(json.dumps({'content': [{'path': 'small.txt'}] * 150, 'isError': False}))";
    let mut client = serve(&folder, &[("tools/names.py", names)]).await;
    let said = result(&mut client, "names", json!({})).await;
    let content = said["content"].as_array().expect("content");
    assert_eq!(content.len(), 101, "{said}");
    assert_eq!(content[99]["resource"]["text"], "small", "{said}");
    assert!(content[100]["text"].to_string().contains("150 files are named"), "{said}");
}

#[tokio::test]
async fn one_session_does_not_take_all_places_of_a_tool() {
    let folder = Folder::new("tool-places");
    let waits = "# Waits.\n# @limit concurrency 8\n# @param {string} word\n\
                 [ \"$ARG_WORD\" = quick ] && { echo quick; exit; }\nexec sleep 4732";
    write(&folder, "tools/waits.sh", waits);
    let server = HttpServer::new(open(&folder).server()).await;
    let (busy, other) = (server.open(LAST).await, server.open(LAST).await);
    let ask = |id, word| request(id, "tools/call", call("waits", json!({ "word": word })));
    let many = join_all((0..16).map(async |id| busy.ask(&ask(id, "slow")).await));
    let quick = async {
        until("three quarters are taken", || running("sleep\x004732") == 6).await;
        let quick = ask(1, "quick");
        let answer = tokio::time::timeout(Duration::from_secs(10), other.ask(&quick)).await;
        let answer = answer.expect("it does not wait for those of another session");
        assert_eq!(text(&answer["result"]), "quick", "{answer}");
        assert_eq!(running("sleep\x004732"), 6);
    };
    tokio::select! {
        _ = many => panic!("they sleep"),
        () = quick => (),
    }
}

#[tokio::test]
async fn the_next_place_of_a_tool_goes_to_whoever_has_fewest() {
    let folder = Folder::new("tool-turns");
    let waits = "# Waits.\n# @limit concurrency 2\n# @param {string} word\n\
                 echo \"$ARG_WORD\" >> \"$ZCP_PROJECT/turns.txt\"\nsleep 0.4";
    write(&folder, "tools/waits.sh", waits);
    let server = HttpServer::new(open(&folder).server()).await;
    let (busy, other) = (server.open(LAST).await, server.open(LAST).await);
    let turns = || fs::read_to_string(folder.0.join("turns.txt")).unwrap_or_default();
    let ask = |id, word| request(id, "tools/call", call("waits", json!({ "word": word })));
    let many = join_all((0..8).map(async |id| busy.ask(&ask(id, "busy")).await));
    let one = async {
        until("two run", || turns().lines().count() == 2).await;
        // The others of that session wait by now.
        tokio::time::sleep(Duration::from_millis(100)).await;
        other.ask(&ask(1, "other")).await
    };
    tokio::join!(many, one);
    let (turns, at) = (turns(), turns().lines().position(|word| word == "other"));
    assert!(at.is_some_and(|at| at <= 3) && turns.lines().count() == 9, "{turns}");
}

#[tokio::test]
async fn one_session_does_not_take_all_places_of_scripts() {
    let folder = Folder::new("places");
    write(&folder, "tools/slow.sh", "# Slow.\nexec sleep 4731");
    write(&folder, "tools/quick.sh", "# Quick.\necho quick");
    let scripts = Scripts::folder(&folder.0).env("ZCP_MAX_CONCURRENT_SCRIPTS", "8");
    let server = HttpServer::new(scripts.open().expect("it opens").server()).await;
    let (busy, other) = (server.open(LAST).await, server.open(LAST).await);
    let slow = |id| request(id, "tools/call", call("slow", json!({})));
    let many = join_all((0..16).map(async |id| busy.ask(&slow(id)).await));
    let quick = async {
        until("three quarters are taken", || running("sleep\x004731") == 6).await;
        let quick = request(1, "tools/call", call("quick", json!({})));
        let answer = tokio::time::timeout(Duration::from_secs(10), other.ask(&quick)).await;
        let answer = answer.expect("it does not wait for those of another session");
        assert_eq!(text(&answer["result"]), "quick", "{answer}");
        assert_eq!(running("sleep\x004731"), 6);
    };
    tokio::select! {
        _ = many => panic!("they sleep"),
        () = quick => (),
    }
}

#[tokio::test]
async fn a_folder_is_followed_until_its_processes_are_ended() {
    let folder = Folder::new("followed");
    write(&folder, "tools/first.sh", "# First.\necho first");
    let scripts = open(&folder);
    let mut programs = scripts.programs();
    write(&folder, "tools/second.sh", "# Second.\necho second");
    let changed = tokio::time::timeout(Duration::from_secs(10), programs.changed()).await;
    changed.expect("it is followed").expect("it is there");
    scripts.processes().end().await;
    // Whoever followed it is gone, and nothing is left that could still look at the folder.
    assert!(programs.has_changed().is_err());
    let scripts = open(&folder);
    let (programs, processes) = (scripts.programs(), scripts.processes());
    drop(scripts);
    processes.end().await;
    assert!(programs.has_changed().is_err());
}

/// Processes that ended count as well, for whoever waited for them.
#[tokio::test]
async fn the_time_of_processes_that_have_ended_counts() {
    let folder = Folder::new("spent");
    let tool = "# Spins.\n# @limit cpu 1s\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12; do\n\
                timeout 0.4 bash -c 'while :; do :; done'\ndone\necho done";
    let mut client = serve(&folder, &[("tools/spins.sh", tool)]).await;
    let ended = result(&mut client, "spins", json!({})).await;
    assert_eq!(ended["isError"], true, "{ended}");
    assert!(text(&ended).contains("processor time"), "{ended}");
}

/// Memory that belongs to no process is counted by nobody.
#[tokio::test]
async fn memory_that_belongs_to_no_process_is_refused() {
    let folder = Folder::new("memfd");
    let tool = "\"\"\"Hides.\n\n@sandbox\n@limit memory 512MiB\n\"\"\"\nimport os\n\
                try:\n    os.memfd_create('x')\n    print('had')\n\
                except PermissionError:\n    print('refused')";
    let mut client = serve(&folder, &[("tools/hides.py", tool)]).await;
    let shown = result(&mut client, "hides", json!({})).await;
    assert_eq!(text(&shown).trim(), "refused", "{shown}");
}
