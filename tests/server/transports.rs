//! What holds for every transport alike: timeouts, rate limits, tasks, subscriptions.

use serde_json::{Value, json};
use std::time::Duration;
use zcp::{RateLimit, Server};
use zcp_tests::{
    call, everything,
    wire::{Client, Stage, Wire},
};

const LAST: &str = "2025-11-25";

/// A conversation on each transport, of one server each.
async fn on_each(server: impl Fn() -> Server, check: impl AsyncFn(Client, Wire)) {
    for wire in [Wire::Pipe, Wire::Http, Wire::Socket, Wire::Sse, Wire::Unix] {
        let stage = Stage::new(wire, server().build().expect("no mistakes")).await;
        check(stage.client(LAST, "mark").await, wire).await;
        stage.close().await;
    }
}

async fn last(client: &mut Client, method: &str, params: Value) -> Value {
    client.call(method, params).await.pop().expect("there is a response")
}

#[tokio::test]
async fn a_call_timeout_holds_on_every_transport() {
    let server = || everything().call_timeout(Duration::from_millis(200));
    on_each(server, async |mut client, wire| {
        let slow = call("slow_compute", json!({ "seconds": 60, "label": "late" }));
        let answer = last(&mut client, "tools/call", slow).await;
        assert_eq!(answer["result"]["isError"], true, "{wire:?} {answer}");
        assert!(answer.to_string().contains("0.2 seconds"), "{wire:?} {answer}");
        let quick = last(&mut client, "tools/call", call("test_simple_text", json!({}))).await;
        assert!(quick["result"].is_object(), "{wire:?} {quick}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_rate_limit_holds_on_every_transport() {
    let server = || everything().layer(RateLimit::per_second(0.001).burst(2.0));
    on_each(server, async |mut client, wire| {
        let quick = || call("test_simple_text", json!({}));
        let first = last(&mut client, "tools/call", quick()).await;
        assert!(first["result"].is_object(), "{wire:?} {first}");
        let refused = last(&mut client, "tools/call", quick()).await;
        let wait = &refused["error"]["data"]["retryAfterSeconds"];
        assert!(wait.is_number(), "{wire:?} {refused}");
        assert!(last(&mut client, "ping", json!({})).await["result"].is_object(), "{wire:?}");
    })
    .await;
}

#[tokio::test]
async fn a_task_is_followed_on_every_transport() {
    on_each(everything, async |mut client, wire| {
        let mut wanted = call("slow_compute", json!({ "seconds": 0.2, "label": "task" }));
        wanted["task"] = json!({ "ttl": 60_000 });
        let begun = last(&mut client, "tools/call", wanted).await;
        let one = json!({ "taskId": begun["result"]["task"]["taskId"] });
        let result = last(&mut client, "tasks/result", one.clone()).await;
        assert!(result.to_string().contains("computed for 0.2"), "{wire:?} {result}");
        let seen = last(&mut client, "tasks/get", one).await;
        assert_eq!(seen["result"]["status"], "completed", "{wire:?}");
        client.close().await;
    })
    .await;
}

#[tokio::test]
async fn resources_are_subscribed_to_on_every_transport() {
    on_each(everything, async |mut client, wire| {
        let uri = || json!({ "uri": "test://watched-resource" });
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            let answer = last(&mut client, method, uri()).await;
            assert_eq!(answer["result"], json!({}), "{wire:?} {method} {answer}");
        }
        let unknown = json!({ "uri": "test://nowhere" });
        let refused = last(&mut client, "resources/subscribe", unknown).await;
        assert!(refused["error"].is_object(), "{wire:?} {refused}");
        client.close().await;
    })
    .await;
}
