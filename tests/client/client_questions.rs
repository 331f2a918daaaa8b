//! Questions of older servers: roots that change, names that are mistaken, forms with several choices.

use futures_util::{StreamExt, stream};
use http::Extensions;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use zcp::{Mcp, Server};
use zcp_client::{
    Client, Error,
    wire::{
        Frame, Frames, Id, Method, Peer, Request, Revision,
        mcp::{
            elicitation::{Action, ElicitResult},
            roots::Root,
        },
    },
};
use zcp_tests::{PATIENCE, everything};

/// A server whose questions are read and changed on their way, and what its client says.
#[derive(Clone)]
struct Overheard {
    mcp: Mcp,
    said: Arc<Mutex<Vec<String>>>,
    asked: fn(Frame) -> Frame,
    /// What it asks beside its calls.
    asks: Option<&'static str>,
}

impl Overheard {
    fn new(server: Server, asked: fn(Frame) -> Frame) -> Self {
        let mcp = Mcp::new(server.build().expect("the server has no mistakes"));
        Self { mcp, said: Arc::default(), asked, asks: None }
    }

    fn said(&self, what: &str) -> usize {
        self.said.lock().expect("no panic").iter().filter(|text| text.contains(what)).count()
    }
}

impl Peer for Overheard {
    fn send(&self, frame: Frame, extensions: Extensions) -> Frames {
        self.said.lock().expect("no panic").push(frame.clone().into_text().to_string());
        let (asked, frames) = (self.asked, self.mcp.send(frame, extensions));
        Frames::stream(frames.map(asked))
    }

    fn events(&self) -> Frames {
        let asked = self.asks.map(|method| {
            let id = Id::number(77);
            Frame::Request(Request { id, method: method.into(), params: None })
        });
        Frames::stream(stream::iter(asked).chain(self.mcp.events()))
    }
}

fn root(uri: &str) -> Root {
    Root { uri: uri.into(), ..Root::default() }
}

#[tokio::test]
async fn a_server_is_told_when_roots_change_and_asks_again() {
    for (revision, told, declared) in [
        (Revision::V2025_06_18, 1, r#""roots":{"listChanged":true}"#),
        (Revision::V2026_07_28, 0, r#""roots":{}"#),
    ] {
        let server = Overheard::new(everything(), |frame| frame);
        let builder = Client::builder("roots", "1").revision(revision);
        let client = builder.roots([root("file:///a")]).connect(server.clone()).await;
        let client = client.expect("it is reached");
        let roots =
            async || client.call::<Value>("test_list_roots", json!({})).await.expect("roots");
        assert_eq!(roots().await[0]["uri"], "file:///a");
        client.set_roots([root("file:///b"), root("file:///c")]).await.expect("they are changed");
        assert_eq!(roots().await[1]["uri"], "file:///c");
        assert_eq!(server.said("notifications/roots/list_changed"), told, "{revision}");
        assert!(server.said(declared) > 0, "{revision}");
        let wrong = client.set_roots([root("https://a")]).await;
        assert!(matches!(wrong, Err(Error::Unable(_))), "{wrong:?}");
        assert_eq!(roots().await[0]["uri"], "file:///b");
    }
    let client = Client::connect(Overheard::new(everything(), |frame| frame)).await.unwrap();
    let undeclared = client.set_roots([]).await.expect_err("nobody asks for them");
    assert!(undeclared.to_string().contains("Builder::roots"), "{undeclared}");
}

#[tokio::test]
async fn a_question_with_a_mistaken_name_is_answered() {
    let server = Overheard::new(everything(), |frame| match frame {
        Frame::Request(mut request) if request.method.is(Method::Elicit) => {
            request.method = "elicitation/request".into();
            Frame::Request(request)
        }
        other => other,
    });
    let builder = Client::builder("questions", "1").revision(Revision::V2025_06_18);
    let client = builder
        .elicit(async |_| Ok(ElicitResult { action: Action::Decline, content: None }))
        .connect(server)
        .await
        .expect("it is reached");
    let said: String = client.call("test_elicitation", json!({ "message": "?" })).await.unwrap();
    assert_eq!(said, "User response: action=decline");
}

#[tokio::test]
async fn several_choices_are_asked_one_by_one_where_forms_had_none() {
    for (revision, is_split) in [(Revision::V2025_06_18, true), (Revision::V2025_11_25, false)] {
        let builder = Client::builder("choices", "1").revision(revision);
        let client = builder
            .elicit(move |question| async move {
                let form = question.requested_schema.expect("a form");
                let fields = form["properties"].as_object().expect("fields");
                let has_array = fields.values().any(|field| field["type"] == "array");
                assert_eq!(
                    (has_array, fields.contains_key("titledMulti/value2")),
                    (!is_split, is_split)
                );
                let content = match is_split {
                    true => {
                        assert_eq!(fields["titledMulti/value2"]["title"], "titledMulti: Second");
                        json!({ "untitledMulti/option1": true, "titledMulti/value1": false,
                            "titledMulti/value2": true, "titledMulti/value3": true })
                    }
                    false => json!({ "untitledMulti": ["option1"],
                        "titledMulti": ["value2", "value3"] }),
                };
                Ok(ElicitResult { action: Action::Accept, content: Some(content) })
            })
            .connect(Mcp::new(everything().build().unwrap()))
            .await
            .expect("it is reached");
        let said: String = client.call("test_elicitation_sep1330_enums", json!({})).await.unwrap();
        for chosen in [
            "\"untitledMulti\": Array [String(\"option1\")]",
            "String(\"value2\"), String(\"value3\")",
        ] {
            assert!(said.contains(chosen) && !said.contains('/'), "{revision}: {said}");
        }
    }
}

#[tokio::test]
async fn a_question_that_belongs_to_no_call_is_answered() {
    for (method, answer) in [
        ("roots/list", r#""id":77,"result":{"roots":[{"uri":"file:///a"}]}"#),
        ("ping", r#""id":77,"result":{}"#),
        ("sampling/createMessage", r#""id":77,"error":{"code":-32601"#),
    ] {
        let mut server = Overheard::new(everything(), |frame| frame);
        server.asks = Some(method);
        let builder = Client::builder("questions", "1").revision(Revision::V2025_11_25);
        let client = builder.roots([root("file:///a")]).connect(server.clone()).await;
        let _client = client.expect("it is reached");
        let answered = async {
            while server.said(answer) == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        answered.unwrap_or_else(|_| panic!("{method}: {:?}", server.said.lock().unwrap()));
    }
}
