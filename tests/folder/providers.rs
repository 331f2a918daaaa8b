//! Resources that are elsewhere: behind https, in repositories; and those that a pattern names.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, Response, StatusCode, header},
    response::IntoResponse,
    routing::{any, get},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
    server::TlsStream,
};
use tokio_util::task::AbortOnDropHandle;
use zcp_scripts::Scripts;
use zcp_tests::{
    folder::Folder,
    pipe::PipeClient,
    request,
    script::{LAST, open, serve, write},
};

/// A server behind https, whose certificate nobody knows but who reads its file.
struct Secure {
    port: u16,
    pem: String,
    /// Connections that were made.
    connections: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

struct Accepting {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connections: Arc<AtomicUsize>,
}

impl axum::serve::Listener for Accepting {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else { continue };
            self.connections.fetch_add(1, Ordering::SeqCst);
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
async fn secure(app: Router) -> Secure {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("it works");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("it works");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("it works");
    let (port, connections) =
        (listener.local_addr().expect("it works").port(), Arc::<AtomicUsize>::default());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let accepting = Accepting { listener, acceptor, connections: connections.clone() };
    let serving = tokio::spawn(async move { axum::serve(accepting, app).await.expect("it works") });
    let pem = made.cert.pem();
    Secure { port, pem, connections, _serving: AbortOnDropHandle::new(serving) }
}

async fn read(client: &mut PipeClient, uri: &str) -> Value {
    client.ask(request(3, "resources/read", json!({ "uri": uri }))).await
}

async fn text(client: &mut PipeClient, uri: &str) -> String {
    let answer = read(client, uri).await;
    let text = answer["result"]["contents"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{uri}: {answer}")).to_owned()
}

/// How a read is refused: its code and its words.
async fn refused(client: &mut PipeClient, uri: &str) -> (i64, String) {
    let answer = read(client, uri).await;
    let code = answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{uri}: {answer}"));
    (code, answer["error"]["message"].as_str().expect("it works").to_owned())
}

fn app() -> Router {
    let kind = |kind: &'static str, text: &'static str| ([(header::CONTENT_TYPE, kind)], text);
    Router::new()
        .route("/data.json", get(move || async move { kind("application/json", "{\"a\":1}") }))
        .route("/page", get(move || async move { kind("text/html; charset=utf-8", "<p>hello") }))
        .route(
            "/picture",
            get(|| async { ([(header::CONTENT_TYPE, "image/png")], vec![137u8, 0, 1]) }),
        )
        .route(
            "/moved",
            get(|| async { (StatusCode::FOUND, [(header::LOCATION, "https://other.example/x")]) }),
        )
        .route("/broken", get(|| async { StatusCode::BAD_GATEWAY }))
        .route("/long", get(|| async { "x".repeat(100_000) }))
        .route(
            "/endless",
            get(|| async {
                let parts = futures_util::stream::repeat_with(|| {
                    Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1000]))
                });
                Body::from_stream(parts)
            }),
        )
        .route("/slow", get(std::future::pending::<StatusCode>))
        .route(
            "/who",
            get(|headers: HeaderMap| async move {
                let said = |name: &str| {
                    headers.get(name).and_then(|one| one.to_str().ok()).unwrap_or("none").to_owned()
                };
                format!("{} {} {}", said("authorization"), said("x-only"), said("user-agent"))
            }),
        )
}

#[tokio::test]
async fn https_is_read_where_it_is_allowed() {
    let (folder, server) = (Folder::new("https"), secure(app()).await);
    let port = server.port;
    let toml = format!(
        "[providers.https]\nallow = [\"127.0.0.1:{port}\", \"localhost:{port}\"]\nca = \"ca.pem\"\n\
         timeout = \"2s\"\nlimit = \"64KiB\"\nuser_agent = \"tests\"\n\
         [providers.https.headers]\nAuthorization = \"Bearer secret://file/token\"\n\
         [providers.https.headers.localhost]\nX-Only = \"here\"\n\
         [resources.page]\nuri = \"https://127.0.0.1:{port}/page\"\n"
    );
    let listed = format!(r#"{{"name": "data", "uri": "https://127.0.0.1:{port}/data.json"}}"#);
    let template = format!(
        r#"{{"name": "any", "uriTemplate": "https://localhost:{port}/{{+path}}", "mimeType": "text/x-own"}}"#
    );
    let files = [
        ("zcp.toml", toml.as_str()),
        ("ca.pem", &server.pem),
        ("token", "abc\n"),
        ("resources/data.meta.json", &listed),
        ("resources/any.meta.json", &template),
    ];
    let mut client = serve(&folder, &files).await;
    let list = client.ask(request(1, "resources/list", json!({}))).await;
    let names: Vec<_> = list["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["data", "page"]);
    let here = |path: &str| format!("https://127.0.0.1:{port}/{path}");
    let data = read(&mut client, &here("data.json")).await["result"]["contents"][0].clone();
    assert_eq!(
        data,
        json!({ "uri": here("data.json"), "mimeType": "application/json", "text": "{\"a\":1}" })
    );
    let page = read(&mut client, &here("page")).await["result"]["contents"][0].clone();
    assert_eq!((&page["mimeType"], &page["text"]), (&json!("text/html"), &json!("<p>hello")));
    let picture = read(&mut client, &here("picture")).await["result"]["contents"][0].clone();
    assert_eq!((&picture["mimeType"], &picture["blob"]), (&json!("image/png"), &json!("iQAB")));
    // What is declared goes before what is answered. Headers are for the hosts they are said for.
    let named =
        read(&mut client, &format!("https://localhost:{port}/who")).await["result"]["contents"][0]
            .clone();
    assert_eq!(
        (&named["mimeType"], &named["text"]),
        (&json!("text/x-own"), &json!("Bearer abc here tests"))
    );
    assert_eq!(text(&mut client, &here("who")).await, "Bearer abc none tests");
    let missing = refused(&mut client, &here("missing")).await;
    assert_eq!(missing.0, -32002, "{}", missing.1);
    for (path, words) in [
        ("moved", "it leads to https://other.example/x, which is not followed"),
        ("broken", "answered 502"),
        ("long", "too large: it may have 65536 bytes"),
        ("endless", "too large: it may have 65536 bytes"),
        ("slow", "took longer than 2 s"),
    ] {
        let (code, said) = refused(&mut client, &here(path)).await;
        assert!(code == -32603 && said.contains(words), "{path}: {code} {said}");
    }
    let (code, said) =
        refused(&mut client, &format!("https://me:pass@127.0.0.1:{port}/page")).await;
    assert!(code == -32602 && said.contains("names a user") && !said.contains("pass"), "{said}");
    let (code, said) = refused(&mut client, "https://example.com/").await;
    assert!(code == -32603 && said.contains("[providers.https] allow"), "{said}");
}

#[tokio::test]
async fn nothing_is_reached_that_is_not_allowed() {
    let server = secure(app()).await;
    let uri = format!("https://127.0.0.1:{}/data.json", server.port);
    let files = |folder: &Folder, toml: &str| {
        write(folder, "zcp.toml", toml);
        write(folder, "ca.pem", &server.pem);
        write(
            folder,
            "resources/data.meta.json",
            &json!({ "name": "data", "uri": uri }).to_string(),
        );
    };
    // Without a list, nothing but what the project names is even known; and that is not reached.
    let folder = Folder::new("https-none");
    files(&folder, "[providers.https]\nca = \"ca.pem\"");
    let mut client = PipeClient::open(open(&folder).server(), LAST).await;
    assert!(refused(&mut client, &uri).await.1.contains("`127.0.0.1` may not be reached"));
    assert_eq!(refused(&mut client, "https://example.com/").await.0, -32002);
    // All hosts are all public hosts.
    let folder = Folder::new("https-all");
    files(&folder, "[providers.https]\nca = \"ca.pem\"");
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_HTTPS_ALLOW_ALL", "true").open().unwrap();
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    for near in
        ["127.0.0.1", "localhost", "127.1", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        let (_, said) =
            refused(&mut client, &format!("https://{near}:{}/data.json", server.port)).await;
        assert!(said.contains("of this machine or network"), "{near}: {said}");
    }
    // A name that leads here is not a number.
    let folder = Folder::new("https-denied");
    files(&folder, "[providers.https]\nca = \"ca.pem\"\nallow = [\"127.0.0.1\"]");
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_HTTPS_DENY_HOSTS", "a.example 127.0.0.1");
    let mut client = PipeClient::open(scripts.open().unwrap().server(), LAST).await;
    assert!(refused(&mut client, &uri).await.1.contains("may not be reached"));
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
    // Variables allow, too; and a stranger's certificate is not trusted.
    let folder = Folder::new("https-variables");
    files(&folder, "");
    let scripts = Scripts::folder(&folder.0).env("MCPBASH_HTTPS_ALLOW_HOSTS", "127.0.0.1");
    let trusting = scripts.clone().env("SSL_CERT_FILE", folder.0.join("ca.pem").to_string_lossy());
    let mut client = PipeClient::open(scripts.open().unwrap().server(), LAST).await;
    let said = refused(&mut client, &uri).await.1;
    assert!(said.contains("certificate"), "{said}");
    let mut client = PipeClient::open(trusting.open().unwrap().server(), LAST).await;
    assert_eq!(text(&mut client, &uri).await, "{\"a\":1}");
}

fn git(folder: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(words);
    command
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().expect("git is there");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with a note, a link and a large file; `filters` says whether its server can leave
/// files out.
fn repository(folder: &Path, name: &str, filters: &str) {
    let work = folder.join(format!("work-{name}"));
    fs::create_dir_all(work.join("docs")).expect("it works");
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(work.join("docs/note.md"), "# First\n").expect("it works");
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "-m", "first"]);
    git(&work, &["tag", "v1"]);
    fs::write(work.join("docs/note.md"), "# Second\n").expect("it works");
    std::os::unix::fs::symlink("/etc/passwd", work.join("link")).expect("it works");
    std::os::unix::fs::symlink("docs", work.join("folder")).expect("it works");
    let mut seed = 1u64;
    let noise = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u8
    });
    fs::write(work.join("large"), noise.take(3 << 20).collect::<Vec<_>>()).expect("it works");
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "-m", "second"]);
    let bare = format!("{name}.git");
    git(folder, &["clone", "--quiet", "--bare", work.to_str().expect("it works"), &bare]);
    git(&folder.join(&bare), &["config", "uploadpack.allowFilter", filters]);
}

/// What git itself serves repositories with.
async fn backend(root: PathBuf, request: Request) -> impl IntoResponse {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("it works");
    let said =
        |name: &str| parts.headers.get(name).and_then(|one| one.to_str().ok()).unwrap_or_default();
    let mut command = tokio::process::Command::new("git");
    command.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default());
    command.env("REQUEST_METHOD", parts.method.as_str()).env("CONTENT_TYPE", said("content-type"));
    command
        .env("HTTP_GIT_PROTOCOL", said("git-protocol"))
        .env("HTTP_CONTENT_ENCODING", said("content-encoding"));
    command.env("CONTENT_LENGTH", body.len().to_string());
    let mut child = command.spawn().expect("it works");
    let mut stdin = child.stdin.take().expect("it works");
    let feeding = async move { stdin.write_all(&body).await };
    let (_, output) = tokio::join!(feeding, child.wait_with_output());
    let output = output.expect("it works").stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").expect("headers end");
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").expect("it works");
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().expect("it works")),
            name => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).expect("it works")
}

/// Where the server keeps its files is none of a client's business.
#[tokio::test]
async fn a_missing_certificate_shows_no_path() {
    let folder = Folder::new("providers-no-ca");
    let settings = "[providers.https]\nallow = [\"127.0.0.1:1\"]\nca = \"missing.pem\"";
    let mut client = serve(&folder, &[("zcp.toml", settings)]).await;
    let (_, why) = refused(&mut client, "https://127.0.0.1:1/x").await;
    assert!(why.contains("certificates for `https` cannot be read"), "{why}");
    assert!(!why.contains("missing.pem"), "{why}");
}

#[tokio::test]
async fn a_file_of_a_repository_is_read() {
    let (folder, repositories) = (Folder::new("git"), Folder::new("git-repositories"));
    repository(&repositories.0, "lean", "true");
    repository(&repositories.0, "fat", "false");
    let (root, requests) = (repositories.0.clone(), Arc::<AtomicUsize>::default());
    let counted = requests.clone();
    let app = Router::new().fallback(any(move |request: Request| {
        counted.fetch_add(1, Ordering::SeqCst);
        backend(root.clone(), request)
    }));
    let server = secure(app).await;
    let port = server.port;
    let toml = format!(
        "[providers.git]\nenabled = true\nallow = [\"localhost:{port}\"]\nca = \"ca.pem\"\nlimit = \"1MiB\"\n"
    );
    let template = format!(
        r#"{{"name": "notes", "uriTemplate": "git+https://localhost:{port}/lean.git#{{ref}}:docs/{{+path}}"}}"#
    );
    let files = [
        ("zcp.toml", toml.as_str()),
        ("ca.pem", &server.pem),
        ("resources/notes.meta.json", &template),
    ];
    let mut client = serve(&folder, &files).await;
    let lean = |rest: &str| format!("git+https://localhost:{port}/lean.git#{rest}");
    let note = read(&mut client, &lean("main:docs/note.md")).await["result"]["contents"][0].clone();
    assert_eq!(
        note,
        json!({ "uri": lean("main:docs/note.md"), "mimeType": "text/markdown", "text": "# Second\n" })
    );
    assert_eq!(text(&mut client, &lean("v1:docs/note.md")).await, "# First\n");
    assert_eq!(text(&mut client, &lean(":docs/note.md")).await, "# Second\n");
    // Read again, nothing is fetched again.
    let before = requests.load(Ordering::SeqCst);
    assert_eq!(text(&mut client, &lean("main:docs/note.md")).await, "# Second\n");
    assert_eq!(requests.load(Ordering::SeqCst), before);
    for missing in ["main:docs/other.md", "main:folder/note.md", "v9:docs/note.md"] {
        let (code, said) = refused(&mut client, &lean(missing)).await;
        assert_eq!(code, -32002, "{missing}: {said}");
    }
    for (rest, code, words) in [
        ("main:link", -32603, "it is a link"),
        ("main:docs", -32602, "is no file"),
        ("main:../up", -32602, "is no file of a repository"),
        ("--upload-pack=x:docs/note.md", -32602, "is no branch"),
        ("main:large", -32603, "too large"),
    ] {
        let (found, said) = refused(&mut client, &lean(rest)).await;
        assert!(found == code && said.contains(words), "{rest}: {found} {said}");
    }
    // A server that sends all of it is stopped when it is too much.
    let fat = format!("git+https://localhost:{port}/fat.git#main:docs/note.md");
    let (_, said) = refused(&mut client, &fat).await;
    assert!(said.contains("the repository is too large"), "{said}");
    let (_, said) = refused(&mut client, "git+https://example.com/x.git#main:a").await;
    assert!(said.contains("[providers.git] allow"), "{said}");
    // It is off unless somebody turns it on.
    let quiet = Folder::new("git-off");
    let toml = toml.replace("enabled = true\n", "");
    let files = [
        ("zcp.toml", toml.as_str()),
        ("ca.pem", &server.pem),
        ("resources/notes.meta.json", &template),
    ];
    let mut client = serve(&quiet, &files).await;
    let (_, said) = refused(&mut client, &lean("main:docs/note.md")).await;
    assert!(said.contains("enabled = true"), "{said}");
    assert_eq!(refused(&mut client, &fat).await.0, -32002);
}

#[tokio::test]
async fn files_of_a_pattern_are_resources() {
    let folder = Folder::new("globs");
    let toml = "[resources.docs]\nglob = \"docs/**/*.md\"\nuri = \"docs://{path}\"\ndescription = \"A guide.\"\n\
                [resources.data]\nglob = \"*.csv\"\n";
    let files = [
        ("zcp.toml", toml),
        ("tools/x.sh", "echo x"),
        ("docs/a b.md", "# A"),
        ("docs/deep/b.md", "# B"),
        ("docs/c.txt", "no"),
        ("table.csv", "1,2"),
    ];
    let mut client = serve(&folder, &files).await;
    let list = client.ask(request(1, "resources/list", json!({}))).await;
    let uris = |list: &Value| {
        let all = list["result"]["resources"].as_array().unwrap().iter();
        all.map(|one| one["uri"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let table = format!("file://{}/table.csv", folder.0.canonicalize().unwrap().display());
    let mut found = uris(&list);
    found.sort();
    assert_eq!(found, ["docs://a%20b.md", "docs://deep/b.md", &table]);
    let guide = list["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["uri"] == "docs://deep/b.md")
        .unwrap();
    assert_eq!(
        (&guide["name"], &guide["mimeType"], &guide["description"], &guide["size"]),
        (&json!("docs/deep/b.md"), &json!("text/markdown"), &json!("A guide."), &json!(3))
    );
    assert_eq!(text(&mut client, "docs://a%20b.md").await, "# A");
    assert_eq!(text(&mut client, &table).await, "1,2");
    assert_eq!(refused(&mut client, "docs://c.txt").await.0, -32002);
    // Changes are told, of files and of lists.
    client.ask(request(2, "resources/subscribe", json!({ "uri": "docs://deep/b.md" }))).await;
    write(&folder, "docs/deep/b.md", "# B, changed");
    while client.next().await["params"]["uri"] != "docs://deep/b.md" {}
    assert_eq!(text(&mut client, "docs://deep/b.md").await, "# B, changed");
    write(&folder, "docs/new.md", "# New");
    while client.next().await["method"] != "notifications/resources/list_changed" {}
    assert_eq!(text(&mut client, "docs://new.md").await, "# New");
    // One that was led elsewhere meanwhile is not read.
    fs::remove_file(folder.0.join("docs/new.md")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.0.join("docs/new.md")).unwrap();
    assert_eq!(refused(&mut client, "docs://new.md").await.0, -32002);
}

#[tokio::test]
async fn patterns_stay_inside_and_are_bounded() {
    let folder = Folder::new("globs-bounded");
    let toml = "[resources.out]\nglob = \"../**/*.md\"\n[resources.same]\nglob = \"many/*\"\nuri = \"x://one\"\n\
                [resources.many]\nglob = \"many/*.txt\"\n";
    write(&folder, "zcp.toml", toml);
    write(&folder, "tools/x.sh", "echo x");
    (0..1005).for_each(|number| write(&folder, &format!("many/{number:04}.txt"), "x"));
    let scripts = open(&folder);
    let mistakes = scripts.mistakes().borrow().join("\n");
    assert!(mistakes.contains("`../**/*.md` must stay inside of the project"), "{mistakes}");
    assert!(mistakes.contains("has a `{path}` in it"), "{mistakes}");
    assert!(mistakes.contains("`many/*.txt` names more than 1000 files"), "{mistakes}");
    let mut client = PipeClient::open(scripts.server(), LAST).await;
    let (mut count, mut cursor) = (0, json!({}));
    loop {
        let list = client.ask(request(1, "resources/list", cursor)).await;
        count += list["result"]["resources"].as_array().unwrap().len();
        match list["result"].get("nextCursor") {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
    }
    assert_eq!(count, 1000);
}
