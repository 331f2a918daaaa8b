//! Folders of scripts: what is found in them, how arguments reach scripts, and what comes back.

use serde_json::{Value, json};
use std::{fs, path::Path};
use zcp_tests::{
    all_capabilities, call,
    folder::Folder,
    modern_as, notification,
    pipe::PipeClient,
    request,
    script::{LAST, open, result, serve, write},
    text,
};

const ECHO: &str = "#!/usr/bin/env bash\n# Says what it is given.\n# @param word string\ncat; echo; echo \"[$ARG_WORD]\"\n";

#[tokio::test]
async fn nothing_need_be_declared() {
    let folder = Folder::new("nothing-declared");
    let mut client = serve(
        &folder,
        &[
            ("tools/shell.sh", "echo from a shell"),
            ("tools/snake.py", "\"\"\"Says hello.\"\"\"\nprint('from python')"),
            ("tools/script.js", "console.log('from node')"),
            ("tools/gem.pl", "print \"from perl\\n\";"),
            ("tools/plain", "#!/bin/sh\necho from a program"),
            ("tools/deep/er/inside.sh", "echo from inside"),
            ("tools/boxed/tool.sh", "source \"$(dirname \"$0\")/helper.sh\"; help"),
            ("tools/boxed/helper.sh", "help() { echo from a box; }"),
            ("tools/_shared.sh", "echo no tool"),
            ("tools/.hidden.sh", "echo no tool"),
            ("tools/README.md", "# No tool"),
            ("tools/data.json", "{}"),
        ],
    )
    .await;
    let list = client.ask(request(1, "tools/list", json!({}))).await;
    let tools = list["result"]["tools"].as_array().expect("tools");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["boxed", "gem", "inside", "plain", "script", "shell", "snake"]);
    assert_eq!(tools[6]["description"], "Says hello.");
    for (tool, said) in [
        ("shell", "from a shell"),
        ("snake", "from python"),
        ("script", "from node"),
        ("gem", "from perl"),
        ("plain", "from a program"),
        ("inside", "from inside"),
        ("boxed", "from a box"),
    ] {
        assert_eq!(text(&result(&mut client, tool, json!({})).await), said);
    }
}

#[tokio::test]
async fn a_folder_without_folders_is_a_folder_of_tools() {
    let folder = Folder::new("flat");
    let mut client = serve(&folder, &[("hello.sh", "echo hello")]).await;
    assert_eq!(text(&result(&mut client, "hello", json!({})).await), "hello");
}

#[tokio::test]
async fn arguments_arrive_in_every_form() {
    let show =
        "printf '%s|' \"$@\"; printf '%s' \"in:\"; cat; printf ' var:%s' \"${ARG_WORD-none}\"";
    let form = |form: &str| {
        format!(
            "#!/usr/bin/env bash\n# Shows.\n# @param word string\n# @param [many] string[]\n# @param loud boolean = false\n{form}\n{show}\n"
        )
    };
    let (both, stdin, env) = (form("#"), form("# @args stdin"), form("# @args env"));
    let argv = form("# @args --word {word} {loud?--loud} -- {many...}");
    let folder = Folder::new("forms");
    let mut client = serve(
        &folder,
        &[
            ("tools/both.sh", both.as_str()),
            ("tools/stdin.sh", &stdin),
            ("tools/env.sh", &env),
            ("tools/argv.sh", &argv),
            ("tools/declared.py", "import sys, json\nprint(json.load(sys.stdin)['word'])"),
            (
                "tools/declared.meta.toml",
                "description = 'Declared.'\nargs = 'stdin'\n[params]\nword = 'string = \"x y\"'",
            ),
            ("tools/yaml.sh", "echo \"$ARG_N\""),
            ("tools/yaml.meta.yaml", "params:\n  n: integer = 4 How many.\nargs: env\n"),
        ],
    )
    .await;
    let args = json!({ "word": "a \"b\" $c", "many": ["x", "-y"], "loud": true });
    let object = r#"{"word":"a \"b\" $c","many":["x","-y"],"loud":true}"#;
    for (tool, said) in [
        ("both", format!("|in:{object} var:a \"b\" $c")),
        ("stdin", format!("|in:{object} var:none")),
        ("env", "|in: var:a \"b\" $c".to_owned()),
        ("argv", "--word|a \"b\" $c|--loud|--|x|-y|in: var:none".to_owned()),
    ] {
        assert_eq!(text(&result(&mut client, tool, args.clone()).await), said);
    }
    assert_eq!(text(&result(&mut client, "declared", json!({})).await), "x y");
    assert_eq!(text(&result(&mut client, "yaml", json!({})).await), "4");
}

#[tokio::test]
async fn wrong_arguments_reach_no_script() {
    let folder = Folder::new("wrong-arguments");
    let mut client = serve(&folder, &[("tools/echo.sh", ECHO)]).await;
    let refused = result(&mut client, "echo", json!({ "word": 5 })).await;
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("word"), "{refused}");
}

#[tokio::test]
async fn texts_are_what_they_say_where_the_schema_wants_that() {
    let folder = Folder::new("texts");
    let tool = "# Shows.\n# @param count integer\n# @param [loud] boolean\n# @param [tags] string[]\n# @param [word] string\ncat";
    let policy = "[[rules]]\ntool = \"show\"\narguments = { count = \"7\" }\naction = \"deny\"\n";
    let files = [("tools/show.sh", tool), ("policy.toml", policy)];
    let mut client = serve(&folder, &files).await;
    let said = json!({ "count": "5", "loud": "true", "tags": "[\"a\"]", "word": "5" });
    let shown = result(&mut client, "show", said).await;
    let meant = json!({ "count": 5, "loud": true, "tags": ["a"], "word": "5" });
    assert_eq!(shown["structuredContent"], meant, "{shown}");
    // What does not fit then either is refused as it came.
    let said = json!({ "count": "5", "loud": "often" });
    let refused = result(&mut client, "show", said).await;
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("count") && text(&refused).contains("loud"), "{refused}");
    // A policy sees what the script would see.
    let denied = result(&mut client, "show", json!({ "count": " 7" })).await;
    assert_eq!(denied["isError"], true, "{denied}");
    assert!(text(&denied).contains("policy"), "{denied}");
}

#[tokio::test]
async fn more_arguments_than_variables_can_hold_are_on_standard_input() {
    let folder = Folder::new("many-arguments");
    let count = "# Counts.\nwc -c; printf '%s' \"$ARG_SHORT\"";
    let env = "# Counts.\n# @args env\necho never";
    let mut client = serve(&folder, &[("tools/count.sh", count), ("tools/env.sh", env)]).await;
    let long = (0..100).map(|n| (format!("long{n}"), Value::from("x".repeat(31 * 1024))));
    let args: Value = long.chain([("short".to_owned(), Value::from("here"))]).collect();
    let counted = result(&mut client, "count", args.clone()).await;
    let expected = format!("{}\nhere", args.to_string().len());
    assert_eq!(text(&counted).trim(), expected);
    let refused = client.ask(request(8, "tools/call", call("env", args))).await;
    assert!(refused.to_string().contains("all arguments together"), "{refused}");
}

#[tokio::test]
async fn a_text_after_a_flag_is_no_option() {
    let folder = Folder::new("options");
    let show = "# Shows.\n# @param [ref] string\n# @param [limit] integer\n# @args -p {ref} --limit {limit} {--as=ref}\nprintf '<%s>' \"$@\"";
    let mut client = serve(&folder, &[("tools/show.sh", show)]).await;
    for evil in ["--output=FILE", "-5"] {
        let refused = result(&mut client, "show", json!({ "ref": evil })).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains("`ref` must not begin with `-`"), "{refused}");
    }
    let shown = result(&mut client, "show", json!({ "ref": "main", "limit": -5 })).await;
    assert_eq!(text(&shown), "<-p><main><--limit><-5><--as=main>");
    assert_eq!(text(&result(&mut client, "show", json!({ "limit": 1 })).await), "<--limit><1>");
}

#[tokio::test]
async fn output_becomes_what_it_is() {
    let png = "\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR";
    let folder = Folder::new("kinds");
    let files = [
        ("tools/object.sh", "echo '{\"a\": [1]}'".to_owned()),
        ("tools/list.sh", "echo '[1, 2]'".to_owned()),
        ("tools/typed.sh", "# Lists.\n# @returns {\"type\":\"array\"}\necho '[1, 2]'".to_owned()),
        ("tools/words.sh", "# Words.\n# @returns text\necho '{\"a\": 1}'".to_owned()),
        ("tools/picture.py", format!("import sys\nsys.stdout.buffer.write(b'{png}')")),
        ("tools/sound.py", "import sys\nsys.stdout.buffer.write(b'RIFF\\x24\\0\\0\\0WAVEfmt \\x10\\0\\0\\0\\x80\\xff')".to_owned()),
        ("tools/bytes.py", "import sys\nsys.stdout.buffer.write(bytes([0xff, 0xfe, 0, 1]))".to_owned()),
        ("tools/result.sh", "# Results.\n# @output-files\necho '{\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"path\":\"note.txt\"}],\"structuredContent\":{\"k\":1},\"_meta\":{\"m\":2}}'".to_owned()),
        ("tools/nothing.sh", "true".to_owned()),
        ("tools/more.sh", "source \"$ZCP_SDK/zcp.sh\"\necho first\nzcp_text \"and more\"\nzcp_link https://example.com/a Example\nzcp_file note.txt\nzcp_file dot.png".to_owned()),
        ("note.txt", "a note".to_owned()),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    write(&folder, "tools/x", "");
    fs::remove_file(folder.0.join("tools/x")).expect("it was there");
    fs::write(folder.0.join("dot.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").expect("written");
    let mut client = serve(&folder, &files).await;
    let object = result(&mut client, "object", json!({})).await;
    assert_eq!(object["structuredContent"], json!({ "a": [1] }));
    assert_eq!(result(&mut client, "list", json!({})).await.get("structuredContent"), None);
    let typed = client.ask(modern_as(9, "tools/call", call("typed", json!({})), json!({}))).await;
    assert_eq!(typed["result"]["structuredContent"], json!([1, 2]), "{typed}");
    assert_eq!(result(&mut client, "words", json!({})).await.get("structuredContent"), None);
    let kind = |result: &Value, at: usize| {
        result["content"][at]["type"].as_str().unwrap_or_default().to_owned()
    };
    let picture = result(&mut client, "picture", json!({})).await;
    assert_eq!(
        (kind(&picture, 0), &picture["content"][0]["mimeType"]),
        ("image".into(), &json!("image/png"))
    );
    assert_eq!(kind(&result(&mut client, "sound", json!({})).await, 0), "audio");
    let bytes = result(&mut client, "bytes", json!({})).await;
    assert_eq!(bytes["content"][0]["resource"]["blob"], "//4AAQ==");
    let whole = result(&mut client, "result", json!({})).await;
    assert_eq!(whole["content"][1]["resource"]["text"], "a note");
    assert_eq!(
        (&whole["structuredContent"], &whole["_meta"]["m"]),
        (&json!({ "k": 1 }), &json!(2))
    );
    assert_eq!(result(&mut client, "nothing", json!({})).await["content"], json!([]));
    let more = result(&mut client, "more", json!({})).await;
    let kinds: Vec<_> = (0..5).map(|at| kind(&more, at)).collect();
    assert_eq!(kinds, ["text", "text", "resource_link", "resource", "image"], "{more}");
}

#[tokio::test]
async fn a_failure_says_what_a_model_can_use() {
    let folder = Folder::new("failures");
    let mut client = serve(
        &folder,
        &[
            ("tools/code.sh", "echo half done; echo 'no such city' >&2; exit 3"),
            ("tools/signal.sh", "kill -SEGV $$"),
            ("tools/own.sh", "source \"$ZCP_SDK/zcp.sh\"\nzcp_fail 'Give a city.'"),
            ("tools/none.meta.json", "{}"),
            ("tools/none.sh", "#!/usr/bin/env no-such-interpreter\n"),
            ("tools/ok.sh", "echo fine"),
        ],
    )
    .await;
    let code = result(&mut client, "code", json!({})).await;
    assert_eq!((&code["isError"], &code["_meta"]["exitCode"]), (&json!(true), &json!(3)));
    assert_eq!(text(&code), "half done");
    let why = code["content"][1]["text"].as_str().expect("words");
    assert!(why.contains("exit code 3") && why.contains("no such city"), "{why}");
    let signal = result(&mut client, "signal", json!({})).await;
    assert!(text(&signal).contains("signal 11 (SEGV"), "{signal}");
    let own = result(&mut client, "own", json!({})).await;
    assert_eq!((text(&own), &own["isError"]), ("Give a city.", &json!(true)));
    let none = result(&mut client, "none", json!({})).await;
    assert!(
        text(&none).contains("no-such-interpreter") || text(&none).contains("cannot be"),
        "{none}"
    );
    assert_eq!(text(&result(&mut client, "ok", json!({})).await), "fine");
}

#[tokio::test]
async fn scripts_talk_with_the_client() {
    let ask = "source \"$ZCP_SDK/zcp.sh\"\nzcp_progress 1/2 begun\nzcp_log info starting\nname=$(zcp_ask name 'Your name?' '{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}')\nwords=$(zcp_sample joke \"A joke for $name\" 50)\necho \"$name: $words\"\nzcp_roots";
    let python = "import zcp\nzcp.progress(1, 2, 'begun')\nzcp.log('info', 'starting')\nname = zcp.ask('name', 'Your name?', {'type': 'object', 'properties': {'name': {'type': 'string'}}, 'required': ['name']})\nimport json\nprint(json.dumps(name, separators=(',', ':')) + ': ' + zcp.sample('joke', 'A joke', max_tokens=50))\nprint(zcp.roots()[0]['uri'])";
    let node = "const zcp = require('zcp');\nzcp.progress(1, 2, 'begun');\nzcp.log('info', 'starting');\nconst name = zcp.ask('name', 'Your name?', {type: 'object', properties: {name: {type: 'string'}}, required: ['name']});\nconsole.log(JSON.stringify(name) + ': ' + zcp.sample('joke', 'A joke', 50));\nconsole.log(zcp.roots()[0].uri);";
    let folder = Folder::new("talking");
    for (name, text) in
        [("tools/shell.sh", ask), ("tools/snake.py", python), ("tools/script.js", node)]
    {
        write(&folder, name, text);
    }
    for tool in ["shell", "snake", "script"] {
        let mut client = PipeClient::new(open(&folder).server());
        let params = json!({ "protocolVersion": LAST, "capabilities": all_capabilities(),
            "clientInfo": { "name": "t", "version": "1" } });
        client.ask(request(0, "initialize", params)).await;
        client.send(notification("notifications/initialized", json!({}))).await;
        let mut params = call(tool, json!({}));
        params["_meta"] = json!({ "progressToken": "p" });
        client.send(request(1, "tools/call", params)).await;
        let mut heard = vec![];
        let answer = loop {
            let message = client.next().await;
            let result = match message["method"].as_str() {
                None => break message,
                Some("elicitation/create") => {
                    json!({ "action": "accept", "content": { "name": "Ann" } })
                }
                Some("sampling/createMessage") => {
                    assert_eq!(message["params"]["maxTokens"], 50);
                    json!({ "role": "assistant", "content": { "type": "text", "text": "ha" }, "model": "m" })
                }
                Some("roots/list") => json!({ "roots": [{ "uri": "file:///work" }] }),
                Some(other) => {
                    heard.push(other.to_owned());
                    continue;
                }
            };
            client.send(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).await;
        };
        assert_eq!(
            text(&answer["result"]),
            "{\"name\":\"Ann\"}: ha\nfile:///work",
            "{tool}: {answer}"
        );
        assert_eq!(heard, ["notifications/progress", "notifications/message"], "{tool}");
    }
}

/// In the newest revision a question ends the run, and the answer begins it again.
#[tokio::test]
async fn a_script_knows_which_trace_it_belongs_to() {
    let folder = Folder::new("trace");
    let tool = "echo \"${TRACEPARENT-none} ${TRACESTATE-none}\"";
    let mut client = serve(&folder, &[("tools/trace.sh", tool)]).await;
    assert_eq!(text(&result(&mut client, "trace", json!({})).await), "none none");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut params = call("trace", json!({}));
    params["_meta"] = json!({ "traceparent": parent, "tracestate": "a=1" });
    let traced = client.ask(request(8, "tools/call", params)).await;
    assert_eq!(text(&traced["result"]), format!("{parent} a=1"));
}

#[tokio::test]
async fn a_question_works_in_both_eras() {
    let folder = Folder::new("eras");
    let mut client = serve(&folder, &[(
        "tools/ask.sh",
        "source \"$ZCP_SDK/zcp.sh\"\nonce=$(zcp_once stamp sh -c 'echo run >> runs; wc -l < runs')\nzcp_confirm sure 'Sure?' || zcp_fail no\necho \"yes $once\"",
    )])
    .await;
    let params = call("ask", json!({}));
    let asked = client.ask(modern_as(1, "tools/call", params.clone(), all_capabilities())).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut retry = params;
    retry["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
    retry["requestState"] = asked["requestState"].clone();
    let answer = client.ask(modern_as(2, "tools/call", retry, all_capabilities())).await;
    assert_eq!(
        text(&answer["result"]).split_whitespace().collect::<Vec<_>>(),
        ["yes", "1"],
        "{answer}"
    );
}

#[tokio::test]
async fn long_output_is_kept_and_linked() {
    let folder = Folder::new("long");
    let mut client = serve(
        &folder,
        &[
            ("tools/long.py", "# Long.\n# @limit output 10k\nprint('é' * 20000)"),
            ("tools/endless.sh", "yes"),
        ],
    )
    .await;
    let long = result(&mut client, "long", json!({})).await;
    assert!(text(&long).len() <= 10 * 1024 && text(&long).chars().all(|c| c == 'é'));
    let link = &long["content"][2];
    assert_eq!((&link["type"], &link["size"]), (&json!("resource_link"), &json!(40_001)));
    let read = client.ask(request(3, "resources/read", json!({ "uri": link["uri"] }))).await;
    let whole = read["result"]["contents"][0]["text"].as_str().expect("text");
    assert_eq!(whole.trim_end(), "é".repeat(20000));
    let endless = result(&mut client, "endless", json!({})).await;
    assert_eq!(endless["isError"], true);
    let mut said = endless["content"]
        .as_array()
        .expect("content")
        .iter()
        .filter_map(|one| one["text"].as_str());
    assert!(said.next_back().is_some_and(|why| why.contains("was stopped")), "{endless}");
}

/// What an API answers may look like a result, or name files of this machine.
#[tokio::test]
async fn only_a_result_is_taken_for_one() {
    let (folder, other) = (Folder::new("results"), Folder::new("results-other"));
    fs::write(other.0.join("x.txt"), "outside").expect("written");
    let list = json!({ "total": 1, "content": [{ "path": other.0.join("x.txt") }] });
    let document = json!({ "type": "doc", "content": [{ "type": "paragraph" }] });
    let kinds = json!({ "content": [{ "type": "paragraph" }] });
    let files = [("list", &list), ("document", &document), ("kinds", &kinds)];
    for (name, value) in files {
        write(&folder, &format!("tools/{name}.sh"), &format!("# Prints.\necho '{value}'"));
    }
    let mut client = serve(&folder, &[]).await;
    for (name, value) in files {
        let answer = result(&mut client, name, json!({})).await;
        assert_eq!(answer["structuredContent"], *value, "{answer}");
    }
}

/// What a script relays must not choose files of this machine.
#[tokio::test]
async fn printed_output_names_files_only_if_opted_in() {
    let (folder, elsewhere) = (Folder::new("opted"), Folder::new("opted-elsewhere"));
    let temporary = elsewhere.0.join("other.txt");
    fs::write(&temporary, "the secret").expect("written");
    let print = |tags: &str, path: &str| {
        let named = json!({ "content": [{ "type": "text", "text": "x" }, { "path": path }] });
        let alone = json!({ "content": [{ "path": path }] });
        format!(
            "# Prints.\n{tags}\nif [ -n \"$ARG_ALONE\" ]; then echo '{alone}'; else echo '{named}'; fi"
        )
    };
    let (plain, opted) = ("#", "# @output-files");
    let temporary = temporary.to_string_lossy();
    let private = ["sub/.env", ".env", "audit.jsonl", &temporary, "link.txt", "pipe"];
    for (at, path) in private.iter().enumerate() {
        write(&folder, &format!("tools/private{at}.sh"), &print(opted, path));
    }
    write(&folder, "tools/relays.sh", &print(plain, "note.txt"));
    write(&folder, "tools/opted.sh", &print(opted, "note.txt"));
    let own = "# Prints.\n# @output-files\nfile=$(mktemp)\necho mine > \"$file\"\necho \"{\\\"content\\\":[{\\\"path\\\":\\\"$file\\\"}]}\"";
    write(&folder, "tools/own.sh", own);
    write(&folder, "tools/beside.sh", &print(plain, "note.txt"));
    write(&folder, "tools/beside.meta.json", r#"{ "outputFiles": true }"#);
    write(&folder, "policy.toml", "default = \"allow\"\naudit = \"audit.jsonl\"\n");
    for name in ["sub/.env", ".env", "audit.jsonl"] {
        write(&folder, name, "the secret\n");
    }
    write(&folder, "note.txt", "a note");
    std::os::unix::fs::symlink(folder.0.join(".env"), folder.0.join("link.txt")).expect("a link");
    assert!(std::process::Command::new("mkfifo").arg(folder.0.join("pipe")).status().is_ok());
    let mut client = serve(&folder, &[]).await;
    for args in [json!({}), json!({ "alone": 1 })] {
        let relayed = result(&mut client, "relays", args).await;
        assert!(relayed["structuredContent"]["content"].is_array(), "{relayed}");
        assert!(!relayed.to_string().contains("a note"), "{relayed}");
    }
    for at in 0..private.len() {
        let answer = result(&mut client, &format!("private{at}"), json!({})).await;
        let why = answer["content"][1]["text"].as_str().expect("why");
        assert!(!answer.to_string().contains("the secret"), "{answer}");
        // Whoever is told learns nothing of where it is.
        assert!(why.contains("it is no") && !why.contains('/'), "{why}");
    }
    for name in ["opted", "beside"] {
        let answer = result(&mut client, name, json!({})).await;
        assert_eq!(answer["content"][1]["resource"]["text"], "a note", "{answer}");
    }
    let mine = result(&mut client, "own", json!({})).await;
    assert_eq!(mine["content"][0]["resource"]["text"], "mine\n", "{mine}");
}

/// A long output is cut for the model; what was promised, and what is a result, is whole.
#[tokio::test]
async fn long_structure_is_whole() {
    let folder = Folder::new("long");
    let print = |rules: &str, begin: &str, end: &str| {
        format!("\"\"\"Prints.\n\n{rules}\n\"\"\"\nprint('{begin}' + 'x' * 400000 + '{end}')")
    };
    let promised = print("@returns {\"type\": \"object\"}", "{\"long\": \"", "\"}");
    let whole = print(
        "@timeout 1m",
        "{\"isError\": false, \"content\": [{\"type\": \"text\", \"text\": \"",
        "\"}]}",
    );
    let files = [("tools/promised.py", promised.as_str()), ("tools/whole.py", &whole)];
    let mut client = serve(&folder, &files).await;
    let answer = result(&mut client, "promised", json!({})).await;
    assert_ne!(answer["isError"], true, "{:.300}", answer.to_string());
    assert_eq!(answer["structuredContent"]["long"].as_str().map(str::len), Some(400_000));
    assert!(answer["content"].to_string().len() < 300_000);
    let answer = result(&mut client, "whole", json!({})).await;
    assert_eq!(text(&answer).len(), 400_000);
}

#[tokio::test]
async fn a_changed_folder_is_live_at_once() {
    let folder = Folder::new("hot");
    let mut client =
        serve(&folder, &[("tools/one.sh", "# One.\necho one"), ("resources/note.txt", "old")])
            .await;
    let uri =
        format!("file://{}/resources/note.txt", folder.0.canonicalize().expect("there").display());
    client.ask(request(1, "resources/subscribe", json!({ "uri": uri }))).await;
    write(&folder, "tools/one.sh", "# One.\necho changed");
    assert_eq!(text(&result(&mut client, "one", json!({})).await), "changed");
    write(&folder, "tools/two.sh", "# Two.\necho two");
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(text(&result(&mut client, "two", json!({})).await), "two");
    write(&folder, "resources/note.txt", "new");
    let mut told = client.next().await;
    while told["method"] != "notifications/resources/updated" {
        told = client.next().await;
    }
    assert_eq!(told["params"]["uri"], uri.as_str());
    fs::remove_file(folder.0.join("tools/two.sh")).expect("it was there");
    while client.next().await["method"] != "notifications/tools/list_changed" {}
    let gone = client.ask(request(4, "tools/call", call("two", json!({})))).await;
    assert_eq!(gone["error"]["code"], -32602);
}

#[tokio::test]
async fn one_mistake_leaves_the_rest_alone() {
    let folder = Folder::new("mistakes");
    write(&folder, "tools/good.sh", "echo good");
    write(&folder, "tools/twice.sh", "echo one");
    write(&folder, "tools/more/twice.sh", "echo two");
    write(&folder, "tools/bad.sh", "# Bad.\n# @timeout soon\necho bad");
    write(&folder, "tools/broken.sh", "echo broken");
    write(&folder, "tools/broken.meta.json", "{ not json");
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().join("\n");
    for named in ["twice", "bad.sh", "broken.meta.json"] {
        assert!(mistakes.contains(named), "{named}: {mistakes}");
    }
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let list = client.ask(request(1, "tools/list", json!({}))).await;
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["good", "twice"]);
    assert!(!Path::new("nowhere").exists());
}

#[tokio::test]
async fn what_is_strange_and_harmless_leaves_the_tool_alone() {
    let folder = Folder::new("strange");
    write(&folder, "tools/both.sh", "echo both");
    let both = r#"{ "inputSchema": { "type": "object" }, "arguments": {}, "timeoutSecs": "abc" }"#;
    write(&folder, "tools/both.meta.json", both);
    write(&folder, "tools/at-once.sh", "sleep 0.1; echo done");
    write(&folder, "tools/at-once.meta.json", r#"{ "timeoutSecs": 0 }"#);
    write(&folder, "tools/lost.sh", "# Lost.\n# @cwd nowhere\npwd");
    write(&folder, "tools/never.sh", "# Never.\n# @limit concurrency 0\necho never");
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().clone();
    for words in [
        "both.sh: `timeoutSecs` is as if it were not said: `abc` is no time",
        "at-once.sh: `timeoutSecs` is as if it were not said",
        "nowhere, which is no folder",
        "the limit `concurrency` is 0",
    ] {
        assert!(mistakes.iter().any(|why| why.contains(words)), "{words}: {mistakes:?}");
    }
    assert_eq!(mistakes.len(), 4, "{mistakes:?}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    assert_eq!(text(&result(&mut client, "both", json!({})).await), "both");
    assert_eq!(text(&result(&mut client, "at-once", json!({})).await), "done");
    let lost = result(&mut client, "lost", json!({})).await;
    assert!(text(&lost).contains("the folder `nowhere`"), "{lost}");
    let unknown = client.ask(request(8, "tools/call", call("never", json!({})))).await;
    assert!(unknown.get("error").is_some(), "{unknown}");
}

#[tokio::test]
async fn resources_and_prompts_come_from_files_and_programs() {
    let folder = Folder::new("resources");
    let mut client = serve(&folder, &[
        ("resources/a b.md", "# Title\n"),
        ("resources/now.sh", "#!/bin/sh\necho \"made for $ZCP_URI\""),
        ("resources/now.meta.json", r#"{"uri":"time://now","mimeType":"text/plain"}"#),
        ("resources/user.py", "#!/usr/bin/env python3\nimport sys, json\nprint(json.dumps({'id': json.load(sys.stdin)['id']}))"),
        ("resources/user.meta.yaml", "name: user\nuriTemplate: 'user://{id}'\nmimeType: application/json\n"),
        ("providers/book.sh", "#!/bin/sh\n[ \"$1\" = book://none ] && exit 3\necho \"the book $1\""),
        ("prompts/review.md", "---\ndescription: Reviews.\n---\nReview {{code}}{{#focus}}, above all {{focus}}{{/focus}}.\n[assistant]\nGladly.\n"),
        ("prompts/made.sh", "#!/bin/sh\n# Makes a prompt.\n# @param topic string About what.\necho '[{\"role\":\"user\",\"content\":\"About '\"$ARG_TOPIC\"'\"},{\"role\":\"assistant\",\"content\":\"Yes?\"}]'"),
        ("prompts/review.completion.sh", "#!/bin/sh\nprintf 'speed\\nsafety\\n'"),
    ])
    .await;
    let read = async |client: &mut PipeClient, uri: &str| {
        client.ask(request(3, "resources/read", json!({ "uri": uri }))).await
    };
    let list = client.ask(request(1, "resources/list", json!({}))).await;
    let list = list["result"]["resources"].as_array().expect("resources").clone();
    let file = list.iter().find(|one| one["name"] == "a b").expect("the file");
    assert_eq!(file["mimeType"], "text/markdown");
    let uri = file["uri"].as_str().expect("a uri");
    assert!(uri.ends_with("/resources/a%20b.md"), "{uri}");
    assert_eq!(read(&mut client, uri).await["result"]["contents"][0]["text"], "# Title\n");
    let contents = read(&mut client, "time://now").await;
    assert_eq!(contents["result"]["contents"][0]["text"], "made for time://now\n");
    let user = read(&mut client, "user://7").await;
    assert_eq!(user["result"]["contents"][0]["text"], "{\"id\": \"7\"}\n", "{user}");
    assert_eq!(
        read(&mut client, "book://x").await["result"]["contents"][0]["text"],
        "the book book://x\n"
    );
    assert_eq!(read(&mut client, "book://none").await["error"]["code"], -32002);
    assert!(read(&mut client, "file:///etc/passwd").await.get("error").is_some());
    let prompt = client
        .ask(request(
            4,
            "prompts/get",
            json!({ "name": "review", "arguments": { "code": "x = 1" } }),
        ))
        .await;
    let messages = &prompt["result"]["messages"];
    assert_eq!(messages[0]["content"]["text"], "Review x = 1.");
    assert_eq!(
        (&messages[1]["role"], &messages[1]["content"]["text"]),
        (&json!("assistant"), &json!("Gladly."))
    );
    let made = client
        .ask(request(5, "prompts/get", json!({ "name": "made", "arguments": { "topic": "rain" } })))
        .await;
    assert_eq!(made["result"]["messages"][0]["content"]["text"], "About rain");
    let completed = client.ask(request(6, "completion/complete", json!({
        "ref": { "type": "ref/prompt", "name": "review" }, "argument": { "name": "focus", "value": "s" } }))).await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["speed", "safety"]));
}

#[tokio::test]
async fn pictures_in_the_folder_are_part_of_what_is_listed() {
    let folder = Folder::new("pictures");
    let picture = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
    let icons = r#""icons": [{ "src": "dot.svg", "sizes": "any" }]"#;
    let resource = format!(r#"{{ "uri": "motd://today", {icons} }}"#);
    let server = "[server]\nname = \"pictured\"\nicons = [{ src = \"dot.svg\" }]\n";
    let mut client = serve(
        &folder,
        &[
            ("zcp.toml", server),
            ("dot.svg", picture),
            ("tools/dot.svg", picture),
            ("prompts/dot.svg", picture),
            ("resources/dot.svg", picture),
            ("tools/show.sh", "# Shows.\n# @icon dot.svg\necho shown"),
            ("prompts/ask.md", "---\nicons: [dot.svg]\n---\nAsk."),
            ("resources/motd.txt", "Good day."),
            ("resources/motd.meta.json", &resource),
        ],
    )
    .await;
    let src = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=";
    for (kind, at) in [("tools", "name"), ("prompts", "name"), ("resources", "uri")] {
        let list = client.ask(request(1, &format!("{kind}/list"), json!({}))).await;
        let all = list["result"][kind].as_array().expect("a list");
        let wanted = ["show", "ask", "motd://today"];
        let one = all.iter().find(|one| wanted.iter().any(|name| one[at] == *name));
        assert_eq!(one.expect("it is listed")["icons"][0]["src"], src, "{list}");
    }
    let asked = client.ask(modern_as(2, "server/discover", json!({}), all_capabilities())).await;
    assert!(asked.to_string().contains(src), "{asked}");
}

#[tokio::test]
async fn folders_of_skills_are_skills() {
    let folder = Folder::new("skills");
    let text = "---\nname: tea\ndescription: How to make tea.\nlicense: MIT\n---\nBoil water.\n";
    let mut client = serve(
        &folder,
        &[
            ("skills/kitchen/tea/SKILL.md", text),
            ("skills/kitchen/tea/references/kinds.md", "Green.\n"),
        ],
    )
    .await;
    let mut ask = async |method: &str, params: Value| {
        client.ask(modern_as(1, method, params, json!({}))).await["result"].clone()
    };
    let uri = "skill://kitchen/tea/SKILL.md";
    let list = ask("skills/list", json!({})).await;
    let skill = &list["skills"][0];
    assert_eq!((&skill["uri"], &skill["frontmatter"]["license"]), (&json!(uri), &json!("MIT")));
    assert_eq!(skill["resources"].as_array().expect("files").len(), 2);
    assert_eq!(ask("skills/get", json!({ "uri": uri })).await["skill"], *skill);
    assert_eq!(ask("resources/read", json!({ "uri": uri })).await["contents"][0]["text"], text);
    let inside = ask("resources/directory/read", json!({ "uri": "skill://kitchen/tea" })).await;
    let names: Vec<_> =
        inside["resources"].as_array().expect("files").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["SKILL.md", "references"]);
    assert_eq!(inside["resources"][1]["mimeType"], "inode/directory");
    let listed = ask("resources/list", json!({})).await;
    assert_eq!(listed["resources"][0]["description"], "How to make tea.");
}

/// What the functions of the other languages are called in PowerShell.
const POWERSHELL: [(&str, &str); 16] = [
    ("args", "Get-ZcpArguments"),
    ("progress", "Write-ZcpProgress"),
    ("log", "Write-ZcpLog"),
    ("ask", "Read-ZcpAnswer"),
    ("confirm", "Confirm-Zcp"),
    ("visit", "Open-ZcpPage"),
    ("sample", "Invoke-ZcpSample"),
    ("sample_raw", "Invoke-ZcpSample"),
    ("roots", "Get-ZcpRoots"),
    ("once", "Invoke-ZcpOnce"),
    ("detach", "Start-ZcpTask"),
    ("updated", "Send-ZcpUpdated"),
    ("text", "Add-ZcpText"),
    ("file", "Add-ZcpFile"),
    ("link", "Add-ZcpLink"),
    ("fail", "Stop-Zcp"),
];

#[test]
fn every_language_can_say_the_same() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/scripts/sdk");
    let read = |name: &str| fs::read_to_string(sdk.join(name)).expect("it is there");
    let (python, powershell) = (read("zcp.py"), read("zcp.psm1"));
    let (node, ruby) = (read("zcp.js"), read("zcp.rb"));
    let defined = python.lines().filter_map(|line| line.strip_prefix("def ")?.split('(').next());
    let functions: Vec<&str> = defined.filter(|name| !name.starts_with('_')).collect();
    assert_eq!(functions, POWERSHELL.map(|(name, _)| name));
    for (name, called) in POWERSHELL {
        assert!(powershell.contains(&format!("function {called} {{")), "PowerShell: {name}");
        assert!(ruby.contains(&format!("    def {name}")), "Ruby: {name}");
        let camel = if name == "sample_raw" { "sampleRaw" } else { name };
        assert!(node.contains(&format!("\nfunction {camel}(")), "Node: {name}");
        assert!(node.contains(&format!("\n  {camel},")), "Node does not export {name}");
    }
    assert!(powershell.contains("[switch]$Raw"), "the raw answer of a model is a switch");
    let more =
        powershell.lines().filter_map(|line| line.strip_prefix("function ")?.split(' ').next());
    for name in more.filter(|name| name.contains("-Zcp")) {
        assert!(POWERSHELL.iter().any(|(_, called)| *called == name), "only PowerShell has {name}");
    }
}

#[tokio::test]
async fn an_icon_is_a_picture_inside_of_the_project() {
    let (folder, elsewhere) = (Folder::new("icons"), Folder::new("icons-elsewhere"));
    let outside = elsewhere.0.join("dot.svg");
    std::fs::write(&outside, "<svg/>").expect("written");
    let shows = |icon: &str| format!("# Shows.\n# @icon {icon}\necho shown");
    write(&folder, "key", "-----BEGIN PRIVATE KEY-----");
    write(&folder, "tools/outside.sh", &shows(&outside.display().to_string()));
    write(&folder, "tools/secret.sh", &shows("../key"));
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().join("\n");
    assert_eq!(mistakes.matches("no picture of at most").count(), 2, "{mistakes}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let list = client.ask(request(1, "tools/list", json!({}))).await;
    let tools = list["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 2, "{list}");
    assert!(tools.iter().all(|tool| tool.get("icons").is_none()), "{list}");
}
