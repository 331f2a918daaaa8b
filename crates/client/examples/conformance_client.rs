//! What the official conformance suite has a client do: an ordinary user of the public API.
//!
//! `cargo run --release -p zcp-client --example conformance_client -- URL`
#![expect(clippy::disallowed_methods, reason = "the suite says what it wants in the environment")]

use serde_json::{Value, json};
use std::{collections::BTreeMap, env, error::Error};
use zcp_client::{
    Builder, Client, Http, OAuth,
    oauth::{Identity, Registration, SigningKey},
    wire::{
        Revision,
        mcp::{
            content::{Content, Role},
            elicitation::{Action, ElicitResult},
            roots::Root,
            sampling::{CreateMessageResult, OneOrMany},
        },
    },
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> Result {
    let url = env::args().nth(1).ok_or("which server? give its URL")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Value = serde_json::from_str(&context)?;
    let mut server = Http::new(url)?;
    if scenario.starts_with("auth/") {
        server = server.oauth(authorization(&scenario, &context)?);
    }
    let client = answering(&scenario).connect(server).await?;
    play(&client, &scenario, &context).await?;
    client.close().await;
    Ok(())
}

/// A client that answers whatever it is asked.
fn answering(scenario: &str) -> Builder {
    let mut client = Client::builder("zcp-conformance", env!("CARGO_PKG_VERSION"))
        .elicit(async |_| Ok(ElicitResult { action: Action::Accept, content: Some(json!({})) }))
        .sample(async |_| {
            Ok(CreateMessageResult {
                role: Role::Assistant,
                content: OneOrMany::One(Content::text("a sample")),
                model: "none".into(),
                stop_reason: Some("endTurn".into()),
                extra: serde_json::Map::new(),
            })
        })
        .roots([Root { uri: "file:///work".into(), ..Root::default() }]);
    // Scenarios of a revision are played in that revision.
    let version = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    if let Some(revision) = Revision::parse(&version) {
        client = client.revision(revision);
    }
    if scenario.starts_with("sep-2640") {
        client = client.extension("io.modelcontextprotocol/skills", json!({}));
    }
    client
}

/// How the scenario wants a token to be come by.
fn authorization(scenario: &str, context: &Value) -> Result<OAuth> {
    let given = |name: &str| context[name].as_str().unwrap_or_default().to_owned();
    let known = || Registration::secret(given("client_id"), given("client_secret"));
    let by_user = OAuth::user("http://localhost:3000/callback", |page| async {
        consent(page).await.map_err(|error| error.to_string())
    });
    let by_user = by_user?
        .described_at("https://conformance-test.local/client-metadata.json")
        .name("zcp-conformance");
    Ok(match scenario {
        "auth/pre-registration" => by_user.registered(known()),
        "auth/dpop" | "auth/dpop-nonce" => by_user.dpop(),
        "auth/client-credentials-basic" => {
            OAuth::client_credentials(given("client_id"), given("client_secret"))
        }
        "auth/client-credentials-jwt" => {
            let key = SigningKey::from_pem(&given("private_key_pem"))?;
            OAuth::client_key(given("client_id"), key)
        }
        "auth/enterprise-managed-authorization" => OAuth::enterprise(
            known(),
            Identity {
                token_endpoint: given("idp_token_endpoint"),
                client_id: given("idp_client_id"),
                id_token: given("idp_id_token"),
            },
        ),
        "auth/wif-jwt-bearer" => {
            OAuth::assertion(Registration::public(given("client_id")), given("valid_jwt"))
        }
        _ => by_user,
    })
}

/// A user who agrees at once: the page sends them back.
async fn consent(page: reqwest::Url) -> Result<reqwest::Url> {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let answer = browser.get(page.clone()).send().await?;
    let back = answer.headers().get("location").ok_or("the page sends nobody back")?;
    Ok(page.join(back.to_str()?)?)
}

async fn play(client: &Client, scenario: &str, context: &Value) -> Result {
    match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            client.list_tools().await?;
        }
        "tools_call" => {
            client.list_tools().await?;
            client.tool("add_numbers").arg("a", 5).arg("b", 3).send().await?;
        }
        "elicitation-sep1034-client-defaults" => {
            client.list_tools().await?;
            client.tool("test_client_elicitation_defaults").send().await?;
        }
        "sse-retry" => {
            client.list_tools().await?;
            client.tool("test_reconnection").send().await?;
        }
        "http-standard-headers" => everything_once(client).await?,
        "http-custom-headers" => {
            client.list_tools().await?;
            for call in context["toolCalls"].as_array().into_iter().flatten() {
                let name = call["name"].as_str().unwrap_or_default();
                client.tool(name).args(call["arguments"].clone()).send().await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let tools = client.list_tools().await?;
            let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = tool.ok_or("the tool is not there")?.input_schema.clone();
            client.tool("json_schema_echo").arg("schema", schema).send().await?;
        }
        "sep-2640-client-no-prefetch" => {
            client.list_skills().await?;
        }
        _ if scenario.starts_with("sep-2640-client-verify") => {
            for skill in client.list_skills().await? {
                let open = client.open_skill(&skill).await?;
                open.read("skill://pdf-processing/references/FORMS.md").await?;
            }
        }
        _ if scenario.starts_with("auth/") => {
            client.list_tools().await?;
            client.tool("test-tool").send().await?;
        }
        _ => call_all(client).await?,
    }
    Ok(())
}

/// Calls every tool there is, with as much as its schema asks for.
async fn call_all(client: &Client) -> Result {
    for tool in client.list_tools().await? {
        let mut call = client.tool(&tool.name);
        let required = tool.input_schema["required"].as_array().cloned().unwrap_or_default();
        for name in required.iter().filter_map(Value::as_str) {
            let value = match tool.input_schema["properties"][name]["type"].as_str() {
                Some("number" | "integer") => json!(1),
                Some("boolean") => json!(true),
                Some("object") => json!({}),
                Some("array") => json!([]),
                _ => json!("text"),
            };
            call = call.arg(name, value);
        }
        call.send().await?;
    }
    Ok(())
}

async fn everything_once(client: &Client) -> Result {
    call_all(client).await?;
    for resource in client.list_resources().await? {
        client.read(resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        let required = prompt.arguments.iter().filter(|argument| argument.required);
        let filled = required.map(|argument| (argument.name.clone(), "text".to_owned()));
        client.prompt(prompt.name, filled.collect::<BTreeMap<_, _>>()).await?;
    }
    Ok(())
}
