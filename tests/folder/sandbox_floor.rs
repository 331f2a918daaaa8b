//! What a script cannot name, set or take to get around the sandbox that its project gives it.

use futures_util::TryStreamExt;
use serde_json::json;
use std::fs;
use zcp_client::Client;
use zcp_scripts::Scripts;
use zcp_tests::{
    folder::Folder,
    pipe::PipeClient,
    replica::Replica,
    script::{LAST, open, result, serve, write},
    text,
};

/// All mistakes of a folder in one text.
fn mistakes(scripts: &Scripts) -> String {
    scripts.mistakes().borrow().join("\n")
}

/// The loader of programs reads variables before anything else of a program happens.
#[tokio::test]
async fn a_loader_variable_acts_inside_of_the_sandbox_only() {
    let (folder, elsewhere) = (Folder::new("loader"), Folder::new("loader-elsewhere"));
    let trace = elsewhere.0.join("trace");
    let tool = format!(
        "# Shows.\n# @env LD_DEBUG=files\n# @env LD_DEBUG_OUTPUT={}\n\
         echo \"$LD_DEBUG $LD_DEBUG_OUTPUT\"",
        trace.display()
    );
    write(&folder, "zcp.toml", "[defaults]\nsandbox = true\nlimits = { files = 20 }\n");
    let mut client = serve(&folder, &[("tools/shows.sh", &tool)]).await;
    let shown = result(&mut client, "shows", json!({})).await;
    assert!(text(&shown).contains(&format!("\nfiles {}", trace.display())), "{shown}");
    let written: Vec<_> = fs::read_dir(&elsewhere.0).expect("a folder").flatten().collect();
    assert!(written.is_empty(), "written outside of the sandbox: {written:?}");
}

#[tokio::test]
async fn a_script_names_no_secret_outside_of_its_sandbox() {
    for (name, rules) in [
        ("floor-defaults", "[defaults]\nsandbox = true\n"),
        ("floor-entry", "[tools.takes]\nsandbox = true\n"),
    ] {
        let (folder, elsewhere) = (Folder::new(name), Folder::new(&format!("{name}-elsewhere")));
        let (secret, made) = (elsewhere.0.join("secret.txt"), elsewhere.0.join("made.txt"));
        fs::write(&secret, "TOP-SECRET").expect("written");
        write(&elsewhere, "make.sh", &format!("touch {}; echo told", made.display()));
        let allowed = format!(
            "{rules}[tools.allowed]\nsandbox = true\nenv = {{ FILE = \"secret://file/{}\" }}\n",
            secret.display()
        );
        write(&folder, "zcp.toml", &allowed);
        let takes = format!(
            "# Takes.\n# @env FILE=secret://file/{}\n# @env RUN=secret://cmd/bash {}\n\
             echo \"<$FILE$RUN>\"",
            secret.display(),
            elsewhere.0.join("make.sh").display()
        );
        write(&folder, "tools/takes.sh", &takes);
        write(&folder, "tools/allowed.sh", "# Is given.\necho \"${#FILE}\"");
        let scripts = open(&folder);
        let wrong = mistakes(&scripts);
        for name in ["FILE", "RUN"] {
            assert!(wrong.contains(&format!("`{name}`: a script whose sandbox is set")), "{wrong}");
        }
        let mut client = PipeClient::open(scripts.server(), LAST).await;
        assert_eq!(text(&result(&mut client, "takes", json!({})).await), "<>", "{name}");
        assert!(!made.exists(), "{name}: a command ran outside of the sandbox");
        // The operator may.
        assert_eq!(text(&result(&mut client, "allowed", json!({})).await), "10", "{name}");
    }
}

#[tokio::test]
async fn a_setting_for_two_files_gives_nothing_away() {
    let (folder, elsewhere) = (Folder::new("two-files"), Folder::new("two-files-elsewhere"));
    let outside = elsewhere.0.join("outside.txt");
    fs::write(&outside, "TOP-SECRET").expect("written");
    let rules = "[defaults]\nsandbox = true\n[tools.fetch]\nsandbox = false\n\
                 env = { TOKEN = \"given\" }\nlimits = { files = 50 }\n";
    write(&folder, "zcp.toml", rules);
    let shows = format!("echo \"<$TOKEN>\"; cat {} 2>/dev/null; ulimit -Hn", outside.display());
    write(&folder, "tools/fetch.sh", &format!("# Fetches.\n{shows}"));
    let mut client = serve(&folder, &[]).await;
    let own = result(&mut client, "fetch", json!({})).await;
    assert_eq!(text(&own), "<given>\nTOP-SECRET50", "{own}");

    write(&folder, "tools/fetch.bash", &format!("# Grabs.\n# @name grab\n{shows}"));
    let scripts = open(&folder);
    let wrong = mistakes(&scripts);
    assert!(wrong.contains("[tools.fetch] could be for several files"), "{wrong}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    for name in ["fetch", "grab"] {
        let shown = result(&mut client, name, json!({})).await;
        assert_eq!(text(&shown), "<>\n50", "{name}: {shown}");
    }
}

#[tokio::test]
async fn a_sandbox_never_reads_or_writes_the_store() {
    let folder = Folder::new("store-inside");
    write(&folder, "tools/confined.sh", "# Is confined.\n# @sandbox\necho confined");
    write(&folder, "tools/free.sh", "# Is free.\necho free");
    let inside = folder.0.join("state").display().to_string();
    let folder_path = folder.0.display().to_string();
    let tools = async |data: &str| {
        let server = Replica::zcp(&[&folder_path, "--data", data]).await;
        let client = Client::connect(server.http()).await.expect("it connects");
        let tools: Vec<_> = client.tools().try_collect().await.expect("a list");
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(tools(&inside).await, ["free"]);
    let elsewhere = Folder::new("store-outside");
    let outside = elsewhere.0.display().to_string();
    assert_eq!(tools(&outside).await, ["confined", "free"]);
    // Where it may write is no place for a store either.
    write(&folder, "tools/confined.sh", &format!("# Is.\n# @sandbox write {outside}\necho x"));
    assert_eq!(tools(&outside).await, ["free"]);
}
