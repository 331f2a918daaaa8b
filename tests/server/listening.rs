//! `subscriptions/listen`: one request, one subscription, and everything it hears of bears its id.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use zcp::{Catalog, Ctx, Live, Prompt, Resource, Result, Server, State, Tool, tool};
use zcp_tests::{call, http::HttpServer, modern, pipe::PipeClient};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const UPDATED: &str = "notifications/resources/updated";

/// How often tools, prompts and resources have changed.
#[derive(Clone, Default)]
struct Changing {
    live: Live,
    counts: Arc<Mutex<[u64; 3]>>,
}

impl Changing {
    fn change(&self, kind: usize) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts[kind] += 1;
        let [tools, prompts, resources] = *counts;
        let catalog = Catalog::default()
            .tool(Tool::new(format!("tool{tools}"), async || "done"))
            .prompt(Prompt::new(format!("prompt{prompts}"), async || "done"));
        let resource = Resource::new(format!("test://list/{resources}"), async || "done");
        self.live.set(catalog.resource(resource));
    }
}

/// Changes a list, or the resource of a URI.
#[tool]
async fn change(what: String, changing: State<Changing>, ctx: Ctx) -> Result<&'static str> {
    match what.as_str() {
        "tools" => changing.change(0),
        "prompts" => changing.change(1),
        "resources" => changing.change(2),
        uri => ctx.updated(uri).await?,
    }
    Ok("changed")
}

/// A server of which everything can change.
fn changing() -> Server {
    let changing = Changing::default();
    changing.change(0);
    let watched = Resource::new("test://a", async || "done").watched();
    let folder = Resource::new("test://c/", async || "done").watched();
    let server = Server::new("test").provide(changing.live.clone());
    server.state(changing).tool(change).resource(watched).resource(folder)
}

fn changed(what: &str) -> Value {
    modern("change", "tools/call", call("change", json!({ "what": what })))
}

fn listen(id: impl Into<Value>, filter: Value) -> Value {
    let mut params = json!({});
    params["notifications"] = filter;
    modern(id, "subscriptions/listen", params)
}

fn everything_there_is() -> Value {
    json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["test://a"] })
}

/// Sends a change on a pipe, and gives what listeners hear, in the order they do. The answer to
/// the change itself may come at any place.
async fn hear(client: &mut PipeClient, what: &str, count: usize) -> Vec<Value> {
    client.send(changed(what)).await;
    let mut heard = vec![];
    for _ in 0..=count {
        let message = client.next().await;
        if message["id"] != "change" {
            heard.push(message);
        }
    }
    assert_eq!(heard.len(), count, "{heard:?}");
    heard
}

#[track_caller]
fn assert_told(message: &Value, method: &str, id: impl Into<Value>) {
    assert_eq!(message["method"], method, "{message}");
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION], id.into(), "{message}");
    assert_eq!(message.get("id"), None, "{message}");
}

#[track_caller]
fn assert_ended(message: &Value, id: impl Into<Value>) {
    let id = id.into();
    assert_eq!(message["id"], id, "{message}");
    assert_eq!(message["result"]["resultType"], "complete", "{message}");
    assert_eq!(message["result"]["_meta"][SUBSCRIPTION], id, "{message}");
}

/// The text of the subscription id in a message.
fn subscription(message: &str) -> &str {
    let (_, rest) = message.split_once(SUBSCRIPTION).expect("it is tagged");
    let rest = rest.strip_prefix("\":").expect("a member");
    rest.split(['}', ',']).next().expect("a value")
}

/// A subscription is named as its request was, digit for digit, from its first message to its
/// last. SV22
#[tokio::test]
async fn a_subscription_has_the_id_of_its_request() {
    let server = HttpServer::new(changing()).await;
    let ids = r#"0 "" "0" -1 "a_b" 9007199254740993 18446744073709551616 "1e3""#;
    let mut streams = vec![];
    for id in ids.split(' ') {
        let message = listen("ID", json!({ "toolsListChanged": true }));
        let body = message.to_string().replace("\"ID\"", id);
        let call = server.post_text("/mcp", body);
        let call = call.header("mcp-protocol-version", "2026-07-28");
        let mut stream = call.header("mcp-method", "subscriptions/listen").send().await;
        let acknowledged = stream.event().await.unwrap().data;
        assert!(acknowledged.contains(ACKNOWLEDGED), "{acknowledged}");
        assert_eq!(subscription(&acknowledged), id);
        streams.push((id, stream));
    }
    server.post(&changed("tools")).send().await;
    for (id, stream) in &mut streams {
        let told = stream.event().await.unwrap().data;
        assert!(told.contains("notifications/tools/list_changed"), "{told}");
        assert_eq!(subscription(&told), *id);
    }
    server.stop.cancel();
    for (id, stream) in &mut streams {
        let ended = stream.event().await.unwrap().data;
        assert!(ended.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)));
        assert_eq!(subscription(&ended), *id);
        assert_eq!(stream.event().await, None);
    }
}

/// On a pipe an id is itself too: neither nothing nor another type. SV22
#[tokio::test]
async fn a_falsy_id_is_an_id_on_a_pipe() {
    let mut client = PipeClient::new(changing());
    let ids = [json!(0), json!(""), json!("0"), json!(u64::MAX), json!(i64::MIN)];
    for id in &ids {
        client.send(listen(id.clone(), json!({ "promptsListChanged": true }))).await;
        assert_told(&client.next().await, ACKNOWLEDGED, id.clone());
    }
    let mut heard = hear(&mut client, "prompts", ids.len()).await;
    let mut tags = heard.iter_mut().map(|one| one["params"]["_meta"][SUBSCRIPTION].take());
    assert!(tags.all(|tag| ids.contains(&tag)));
    client.stop.cancel();
    let mut ended = vec![];
    for _ in &ids {
        let end = client.next().await;
        assert_ended(&end, end["id"].clone());
        ended.push(end["id"].to_string());
    }
    ended.sort();
    let mut ids = ids.map(|id| id.to_string());
    ids.sort();
    assert_eq!(ended, ids);
}

/// What the server cannot tell of is not in the acknowledgement, and nothing else is missing. SV23
#[tokio::test]
async fn the_acknowledgement_lists_what_is_honoured() {
    let tools = || Server::new("tools").tool(Tool::new("x", async || "done"));
    let watched = Resource::new("test://a", async || "done").watched();
    let lists = json!({ "toolsListChanged": true, "promptsListChanged": true,
        "resourcesListChanged": true });
    let subscriptions = json!({ "resourceSubscriptions": ["test://a"] });
    for (server, wanted, honoured) in [
        (tools().provide(Live::default()), everything_there_is(), lists),
        (tools().resource(watched), everything_there_is(), subscriptions),
        (changing(), everything_there_is(), everything_there_is()),
        (changing(), json!({}), json!({})),
        (changing(), json!({ "toolsListChanged": false }), json!({})),
        (changing(), json!({ "promptsListChanged": true }), json!({ "promptsListChanged": true })),
    ] {
        let mut client = PipeClient::new(server);
        client.send(listen(1, wanted)).await;
        let acknowledged = client.next().await;
        assert_told(&acknowledged, ACKNOWLEDGED, 1);
        assert_eq!(acknowledged["params"]["notifications"], honoured);
    }
}

/// What was not asked for is not told: the next to be heard of is what was. SV24
#[tokio::test]
async fn only_what_was_asked_for_is_told() {
    let server = HttpServer::new(changing()).await;
    for (kind, wanted) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        let mut stream = server.post(&listen(kind, json!({ wanted: true }))).send().await;
        assert_told(&stream.message().await.unwrap(), ACKNOWLEDGED, kind);
        let mut all = server.post(&listen("all", everything_there_is())).send().await;
        assert_told(&all.message().await.unwrap(), ACKNOWLEDGED, "all");
        for what in ["tools", "prompts", "resources", "test://a"] {
            server.post(&changed(what)).send().await;
            let told = all.message().await.unwrap();
            let method = match what {
                "test://a" => UPDATED.to_owned(),
                list => format!("notifications/{list}/list_changed"),
            };
            assert_told(&told, &method, "all");
            if what == kind {
                assert_told(&stream.message().await.unwrap(), &method, kind);
            }
        }
        server.post(&changed(kind)).send().await;
        let again = stream.message().await.unwrap();
        assert_told(&again, &format!("notifications/{kind}/list_changed"), kind);
    }
}

/// A subscription hears of its resource and what lies below it, not of its neighbours. SV24
#[tokio::test]
async fn a_resource_is_told_of_with_what_lies_below_it() {
    let mut pipe = PipeClient::new(changing());
    let filter = json!({ "resourceSubscriptions": ["test://a", "test://c/"] });
    pipe.send(listen(7, filter.clone())).await;
    assert_told(&pipe.next().await, ACKNOWLEDGED, 7);
    let server = HttpServer::new(changing()).await;
    let mut stream = server.post(&listen(8, filter)).send().await;
    assert_told(&stream.message().await.unwrap(), ACKNOWLEDGED, 8);
    for (uri, told) in [
        ("test://ab", false),
        ("test://a", true),
        ("test://b", false),
        ("test://a/b/c", true),
        ("test://", false),
        ("test://c/d", true),
        ("test://a#part", true),
        ("test://c", false),
        ("test://a", true),
    ] {
        server.post(&changed(uri)).send().await;
        let heard = hear(&mut pipe, uri, usize::from(told)).await;
        if told {
            let on_http = stream.message().await.unwrap();
            assert_told(&heard[0], UPDATED, 7);
            assert_told(&on_http, UPDATED, 8);
            assert_eq!(heard[0]["params"]["uri"], uri);
            assert_eq!(on_http["params"]["uri"], uri);
        }
    }
}

/// A server that goes answers what it was asked to listen for, and then is silent. SV25
#[tokio::test]
async fn a_server_that_closes_ends_its_subscriptions() {
    let server = HttpServer::new(changing()).await;
    let mut stream = server.post(&listen("h", everything_there_is())).send().await;
    assert_told(&stream.message().await.unwrap(), ACKNOWLEDGED, "h");
    let mut pipe = PipeClient::new(changing());
    pipe.send(listen("p", everything_there_is())).await;
    assert_told(&pipe.next().await, ACKNOWLEDGED, "p");
    server.stop.cancel();
    pipe.stop.cancel();
    assert_ended(&stream.message().await.unwrap(), "h");
    assert_eq!(stream.message().await, None);
    assert_ended(&pipe.next().await, "p");
    assert_eq!(pipe.next_or_end().await, None);
    server.close().await;
}

/// Two who listen for the same hear the same, each under its own name. SV26
#[tokio::test]
async fn concurrent_subscriptions_have_their_own_ids() {
    let server = HttpServer::new(changing()).await;
    // Ids are a client's own: two clients may use one.
    let mut streams = vec![];
    for id in ["a", "b", "b"] {
        let mut stream = server.post(&listen(id, everything_there_is())).send().await;
        assert_told(&stream.message().await.unwrap(), ACKNOWLEDGED, id);
        streams.push((id, stream));
    }
    let mut pipe = PipeClient::new(changing());
    for id in [json!(1), json!("1"), json!(2)] {
        pipe.send(listen(id.clone(), everything_there_is())).await;
        assert_told(&pipe.next().await, ACKNOWLEDGED, id);
    }
    for (what, method) in [("tools", "notifications/tools/list_changed"), ("test://a/b", UPDATED)] {
        server.post(&changed(what)).send().await;
        for (id, stream) in &mut streams {
            assert_told(&stream.message().await.unwrap(), method, *id);
        }
        let mut tags = vec![];
        for told in hear(&mut pipe, what, 3).await {
            assert_eq!(told["method"], method);
            tags.push(told["params"]["_meta"][SUBSCRIPTION].to_string());
        }
        tags.sort();
        assert_eq!(tags, ["\"1\"", "1", "2"]);
    }
}

/// However close changes follow a subscription, its acknowledgement is first and they are not
/// lost. SI05
#[tokio::test]
async fn the_acknowledgement_is_the_first_of_its_subscription() {
    let mut client = PipeClient::new(changing());
    let mut lines = String::new();
    for id in 0..20 {
        lines += &format!("{}\n", listen(id, everything_there_is()));
        lines += &format!("{}\n", changed(&format!("test://a/{id}")));
    }
    client.write(lines.trim_end().as_bytes()).await;
    let mut heard = [0; 20];
    // One who came as the n-th hears of its own change and of all that follow.
    let total: u64 = (1..=20).map(|rest| 1 + rest).sum();
    let mut told = 0;
    while told < total {
        let message = client.next().await;
        if message["id"] == "change" {
            continue;
        }
        told += 1;
        let id = message["params"]["_meta"][SUBSCRIPTION].as_u64().unwrap();
        let place = usize::try_from(id).unwrap();
        if heard[place] == 0 {
            assert_told(&message, ACKNOWLEDGED, id);
        } else {
            assert_told(&message, UPDATED, id);
            let uri = format!("test://a/{}", place + heard[place] - 1);
            assert_eq!(message["params"]["uri"], uri);
        }
        heard[place] += 1;
    }
}
