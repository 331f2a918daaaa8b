//! Who a user is to a server: got by consent, kept in files, spent once.

use futures_util::future::join_all;
use serde_json::{Value, json};
use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::process::Command;
use zcp_client::{
    Client, Error, Failure, Http, OAuth, Sse2024, Vault, Ws, oauth::Url, wire::Revision,
};
use zcp_tests::{everything, examples::zcp, folder::Folder, issuer::Issuer, relay::Relay};

fn vault(folder: &Folder) -> Vault {
    Vault::new(folder.0.join("zcp/tokens"))
}

/// A browser whose user says yes to everything.
async fn browse(page: Url) -> Result<Url, String> {
    let none = reqwest::redirect::Policy::none();
    let browser = reqwest::Client::builder().redirect(none).build().expect("a browser");
    let answer = browser.get(page).send().await.map_err(|error| error.to_string())?;
    let back = answer.headers().get("location").ok_or("nobody sends me back")?;
    Url::parse(back.to_str().expect("it is text")).map_err(|error| error.to_string())
}

fn by_user(vault: Option<Vault>) -> OAuth {
    let oauth = OAuth::user("http://127.0.0.1:1/callback", browse).expect("a URL");
    vault.into_iter().fold(oauth, OAuth::kept_in)
}

async fn connect(issuer: &Issuer, oauth: OAuth) -> zcp_client::Result<Client> {
    Client::connect(Http::new(issuer.url()).expect("a URL").oauth(oauth)).await
}

fn denied(error: &Error) -> &str {
    match error {
        Error::Lost(Failure::Denied(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Runs the command with its files in a folder.
async fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(zcp());
    command.args(args).env("XDG_DATA_HOME", folder).env("XDG_CACHE_HOME", folder);
    command.output().await.expect("it runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_processes_spend_a_token_once() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("twenty"));
    issuer.known().lifetime = 1;
    connect(&issuer, by_user(Some(vault(&folder)))).await.expect("it is reached").close().await;
    // On a busy machine the token was too old for the greeting already.
    let before = issuer.known().renewed;
    // The token has ended, for everybody.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    issuer.known().valid.clear();
    issuer.known().lifetime = 3600;
    let url = issuer.url();
    let args = ["call", url.as_str(), "test_simple_text"];
    let all = join_all((0..20).map(|_| run(&folder.0, &args))).await;
    for output in &all {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let known = issuer.known();
    assert_eq!((known.renewed - before, known.spent_twice, known.consents), (1, 0, 1));
}

#[tokio::test]
async fn tokens_and_registrations_are_kept_where_only_their_user_reads() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("kept"));
    for _ in 0..3 {
        connect(&issuer, by_user(Some(vault(&folder)))).await.expect("it is reached");
    }
    assert_eq!(issuer.known().consents, 1, "the user is asked once");
    assert_eq!(issuer.known().clients.len(), 1, "the client is registered once");
    assert_eq!(issuer.known().clients[0]["application_type"], "native");
    let tokens = folder.0.join("zcp/tokens");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&tokens), 0o700);
    let mut kinds = vec![];
    for file in std::fs::read_dir(&tokens).unwrap().flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        let name = file.file_name().to_string_lossy().into_owned();
        kinds.push(name.split('-').next().unwrap().to_owned() + name.rsplit('.').next().unwrap());
    }
    kinds.sort();
    assert_eq!(kinds, ["clientjson", "tokenjson", "tokenlock"]);
    // Without a user, what is kept is enough; and when it is gone, it is said what to do.
    let quiet = || OAuth::logged_in(vault(&folder), "log in first");
    connect(&issuer, quiet()).await.expect("it is reached");
    assert!(quiet().is_logged_in(&issuer.url()));
    assert!(quiet().log_out(&issuer.url()).await.expect("it is taken back"));
    assert_eq!(issuer.known().revoked, ["refresh-1"]);
    let error = connect(&issuer, quiet()).await.expect_err("nobody is logged in");
    assert_eq!(denied(&error), "log in first");
}

#[tokio::test]
async fn a_renewed_token_that_is_refused_is_not_renewed_again() {
    let issuer = Issuer::new(everything(), json!({})).await;
    let client = connect(&issuer, by_user(None)).await.expect("it is reached");
    issuer.known().valid.clear();
    issuer.known().renews_in_vain = true;
    client.ping().await.expect("the user is asked again");
    let known = issuer.known();
    assert_eq!((known.renewed, known.consents), (1, 2));
}

#[tokio::test]
async fn a_renewal_is_kept_though_nobody_waits_for_it() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("dropped"));
    issuer.known().lifetime = 1;
    let client = connect(&issuer, by_user(Some(vault(&folder)))).await.expect("it is reached");
    let before = issuer.known().renewed;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    issuer.known().lifetime = 3600;
    // The issuer takes 50 ms for a token.
    assert!(tokio::time::timeout(Duration::from_millis(20), client.ping()).await.is_err());
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.ping().await.expect("it is reached");
    let known = issuer.known();
    assert_eq!((known.renewed - before, known.spent_twice, known.consents), (1, 0, 1));
}

#[tokio::test]
async fn more_rights_are_asked_for_together_with_the_old_ones_and_not_forever() {
    let issuer = Issuer::new(everything(), json!({})).await;
    let client = connect(&issuer, by_user(None)).await.expect("it is reached");
    issuer.known().needs = Some("read write".into());
    let error = client.ping().await.expect_err("it never has enough");
    assert!(matches!(error, Error::Lost(Failure::Status { status: 403, .. })), "{error:?}");
    let scopes = issuer.known().scopes.clone();
    let renewed = issuer.known().renewed;
    assert!(scopes.len() <= 4, "{scopes:?}");
    assert_eq!(scopes[1], "read write");
    assert_eq!(renewed, 0, "renewal gives no new rights");
    issuer.known().needs = Some("admin".into());
    client.ping().await.expect_err("it never has enough");
    assert_eq!(issuer.known().scopes.last().unwrap(), "admin read write");
}

#[tokio::test]
async fn a_refused_registration_says_where_users_are_sent_back_to() {
    let issuer = Issuer::new(everything(), json!({})).await;
    issuer.known().refuses_clients = true;
    let error = connect(&issuer, by_user(None)).await.expect_err("it is refused");
    let why = denied(&error);
    assert!(why.contains("http://127.0.0.1:1/callback"), "{why}");
    assert!(why.contains("no loopback"), "{why}");
    let issuer = Issuer::new(everything(), json!({ "registration_endpoint": null })).await;
    let error = connect(&issuer, by_user(None)).await.expect_err("nobody is registered");
    assert!(denied(&error).contains("register one there, and give its id"), "{error}");
}

#[tokio::test]
async fn an_issuer_that_is_not_to_be_trusted_gets_nothing() {
    // The addresses are dangerous, the codes unprotected, or the issuer is another.
    for described in [
        json!({ "code_challenge_methods_supported": null }),
        json!({ "code_challenge_methods_supported": ["plain"] }),
        json!({ "issuer": "https://somebody.example" }),
        json!({ "authorization_endpoint": "javascript:alert(1)" }),
        json!({ "authorization_endpoint": "file:///etc/passwd" }),
        json!({ "token_endpoint": "http://somebody.example/token" }),
    ] {
        let issuer = Issuer::new(everything(), described.clone()).await;
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = visits.clone();
        let oauth = OAuth::user("http://127.0.0.1:1/callback", move |page| {
            counted.fetch_add(1, Ordering::Relaxed);
            browse(page)
        });
        let error = connect(&issuer, oauth.unwrap()).await.expect_err("it is not to be trusted");
        denied(&error);
        let visited = visits.load(Ordering::Relaxed) > 0;
        assert_eq!(visited, described.get("token_endpoint").is_some(), "{described}");
        assert!(issuer.known().valid.is_empty());
    }
}

#[tokio::test]
async fn what_a_user_comes_back_with_must_be_ours() {
    let said = json!({ "authorization_response_iss_parameter_supported": true });
    for (member, value) in [
        ("state", "another"),
        ("iss", "https://somebody.example"),
        ("error", "shown only if the issuer is right"),
    ] {
        let issuer = Issuer::new(everything(), said.clone()).await;
        issuer.known().sent_back.insert(member.to_owned(), value.to_owned());
        if member == "error" {
            issuer.known().sent_back.insert("iss".into(), "https://somebody.example".into());
        }
        let error = connect(&issuer, by_user(None)).await.expect_err("it is not ours");
        assert!(!denied(&error).contains("shown only"), "{error}");
        assert!(issuer.known().valid.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_logs_in_with_the_command_and_out_again() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("command"));
    let url = issuer.url();
    let not_yet = run(&folder.0, &["ping", &url]).await;
    assert_eq!(not_yet.status.code(), Some(6));
    let words = String::from_utf8_lossy(&not_yet.stderr).into_owned();
    assert!(words.contains(&format!("zcp login {url}")), "{words}");
    assert_eq!(issuer.known().clients.len(), 0, "nobody was asked for anything");

    // The browser is a program that tells us what it was to show.
    let (browser, shown) = (folder.0.join("browser"), folder.0.join("shown"));
    let script = "#!/bin/sh\nprintf %s \"$1\" > \"$0.new\"; mv \"$0.new\" \"${0%browser}shown\"\n";
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut login = Command::new(zcp());
    login.args(["login", &url, "--json"]).env("BROWSER", &browser).kill_on_drop(true);
    login.env("XDG_DATA_HOME", &folder.0).env("XDG_CACHE_HOME", &folder.0);
    let browsing = async {
        let page = loop {
            match std::fs::read_to_string(&shown) {
                Ok(page) => break page,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        // A stranger who comes by does not end the login.
        let place = Url::parse(&page).unwrap();
        let place = place.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1;
        let stranger = reqwest::get(format!("{place}?code=mine&state=mine")).await.unwrap();
        assert_eq!(stranger.status(), 400);
        assert_eq!(reqwest::get(place.replace("callback", "other")).await.unwrap().status(), 404);
        reqwest::get(page).await.unwrap().text().await.unwrap()
    };
    let both = async { tokio::join!(login.output(), browsing) };
    let (output, page) = tokio::time::timeout(Duration::from_secs(20), both).await.expect("an end");
    let output = output.expect("it runs");
    assert!(page.contains("You are logged in"), "{page}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["loggedIn"], true);
    assert!(run(&folder.0, &["ping", &url]).await.status.success());
    assert!(run(&folder.0, &["logout", &url]).await.status.success());
    assert_eq!(issuer.known().revoked.len(), 1);
    assert_eq!(run(&folder.0, &["ping", &url]).await.status.code(), Some(6));
}

#[tokio::test]
async fn a_login_that_was_ended_elsewhere_stays_ended() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("ended"));
    issuer.known().lifetime = 1;
    let running = connect(&issuer, by_user(Some(vault(&folder)))).await.expect("it is reached");
    let other = OAuth::logged_in(vault(&folder), "log in first");
    assert!(other.log_out(&issuer.url()).await.expect("it is taken back"));
    let before = issuer.known().renewed;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    issuer.known().valid.clear();
    running.ping().await.expect("the user is asked again");
    let known = issuer.known();
    assert_eq!((known.renewed - before, known.consents), (0, 2));
}

#[tokio::test]
async fn an_issuer_in_trouble_costs_nobody_their_login() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("trouble"));
    issuer.known().lifetime = 1;
    connect(&issuer, by_user(Some(vault(&folder)))).await.expect("it is reached").close().await;
    let before = issuer.known().renewed;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    issuer.known().is_busy = true;
    issuer.known().valid.clear();
    let quiet = || OAuth::logged_in(vault(&folder), "log in first");
    connect(&issuer, quiet()).await.expect_err("no token is given now");
    issuer.known().is_busy = false;
    connect(&issuer, quiet()).await.expect("the token was kept");
    assert_eq!(issuer.known().renewed - before, 1);
}

#[tokio::test]
async fn rights_of_an_earlier_run_are_asked_for_again() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("rights"));
    issuer.known().needs = Some("read".into());
    connect(&issuer, by_user(Some(vault(&folder)))).await.expect_err("it never has enough");
    issuer.known().needs = Some("write".into());
    connect(&issuer, by_user(Some(vault(&folder)))).await.expect_err("it never has enough");
    assert_eq!(issuer.known().scopes.last().unwrap(), "read write");
}

#[tokio::test]
async fn a_server_of_2024_is_logged_in_to_as_well() {
    let issuer = Issuer::new(everything(), json!({})).await;
    let url = format!("http://{}/sse", issuer.address);
    let http = Http::new(url).unwrap().oauth(by_user(None));
    let client = Client::builder("old", "1").revision(Revision::V2024_11_05);
    let client = client.connect(Sse2024::new(http)).await.expect("it is reached");
    assert!(client.list_tools().await.expect("a list").len() > 5);
    assert_eq!(issuer.known().consents, 1);
}

#[tokio::test]
async fn a_user_may_take_longer_than_a_server() {
    let issuer = Issuer::new(everything(), json!({})).await;
    let oauth = OAuth::user("http://127.0.0.1:1/callback", async |page| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        browse(page).await
    });
    let builder = Client::builder("slow", "1").timeout(Duration::from_millis(300));
    let http = Http::new(issuer.url()).unwrap().oauth(oauth.unwrap());
    builder.connect(http).await.expect("it is reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_is_opened_with_a_token_and_resumed_with_a_newer_one() {
    let (relay, folder) = (Relay::new("127.0.0.1:1").await, Folder::new("socket"));
    let issuer = Issuer::behind(&relay, everything()).await;
    let client = Client::connect(Ws::new(relay.ws()).oauth(by_user(Some(vault(&folder)))));
    let client = client.await.expect("the user is asked");
    // The token is worth nothing any more when the connection is lost.
    issuer.known().valid.clear();
    relay.cut();
    assert!(!client.list_tools().await.expect("it goes on").is_empty());
    {
        let known = issuer.known();
        assert_eq!((known.renewed, known.consents, known.spent_twice), (1, 1, 0));
    }
    client.close().await;
    let quiet = OAuth::logged_in(vault(&folder), "log in first");
    assert!(quiet.is_logged_in(&relay.ws()));
}

#[tokio::test]
async fn a_websocket_without_a_login_says_how_to_log_in() {
    let (issuer, folder) = (Issuer::new(everything(), json!({})).await, Folder::new("no-login"));
    let url = issuer.url().replace("http:", "ws:").replace("/mcp", "/ws");
    let output = run(&folder.0, &["ping", &url]).await;
    assert_eq!(output.status.code(), Some(6));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(&format!("zcp login {url}")), "{words}");
    // A token that the user has shown is not replaced.
    let output = run(&folder.0, &["ping", &url, "--header", "Authorization: Bearer none"]).await;
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(issuer.known().clients.len(), 0);
    // What `zcp login` does, without a browser.
    let oauth = by_user(Some(vault(&folder)));
    Client::connect(Ws::new(&*url).oauth(oauth)).await.expect("it is reached").close().await;
    assert!(run(&folder.0, &["ping", &url]).await.status.success());
    assert!(run(&folder.0, &["logout", &url]).await.status.success());
    assert_eq!(run(&folder.0, &["ping", &url]).await.status.code(), Some(6));
}

#[tokio::test]
async fn given_credentials_are_for_one_issuer_after_a_restart_too() {
    let described = json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic"] });
    let server = Issuer::new(everything(), described.clone()).await;
    let other = Issuer::new(everything(), described).await;
    let folder = Folder::new("bound");
    let origin = |issuer: &Issuer| format!("http://{}", issuer.address);
    let given = || OAuth::client_credentials("me", "secret");
    let client = connect(&server, given().kept_in(vault(&folder))).await.expect("it is reached");
    client.close().await;
    assert_eq!(server.known().by_credentials, 1);
    // From now on the server names somebody else, to a client that was started anew.
    server.known().named = Some(origin(&other));
    let error = connect(&server, given().kept_in(vault(&folder))).await.expect_err("not to them");
    assert!(denied(&error).contains("is not who the credentials are for"), "{error}");
    // The user says whom they are for, whatever the server names.
    let error = connect(&server, given().issuer(origin(&server))).await.expect_err("not to them");
    assert!(denied(&error).contains(&origin(&server)), "{error}");
    assert_eq!(other.known().by_credentials, 0, "they were not shown");
    let to_other = given().issuer(origin(&other)).kept_in(vault(&folder));
    // Its tokens are not for this server.
    connect(&server, to_other).await.expect_err("it gives none");
    // Whoever logs out may begin anew.
    given().kept_in(vault(&folder)).log_out(&server.url()).await.expect("it is forgotten");
    server.known().named = None;
    connect(&server, given().kept_in(vault(&folder))).await.expect("it is reached");
}

#[tokio::test]
async fn a_client_with_a_site_of_its_own_registers_as_web() {
    for (redirect, expected) in
        [("https://app.example.com/back", "web"), ("http://127.0.0.1:1/callback", "native")]
    {
        let issuer = Issuer::new(everything(), json!({})).await;
        let oauth = OAuth::user(redirect, browse).expect("a URL");
        connect(&issuer, oauth).await.expect("it is reached");
        assert_eq!(issuer.known().clients[0]["application_type"], expected, "{redirect}");
    }
}
