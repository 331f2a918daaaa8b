//! The demo: a small server worth talking to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};
use zcp::{Answer, Ctx, Json, Prompt, Result, Server, prompt, resource, tool};

pub(crate) fn server() -> Server {
    Server::new("zcp-demo")
        .title("ZCP demo")
        .description("A few small tools to try a client with")
        .instructions("Small tools to try a client with. `introduce` asks the user; `countdown` takes a while.")
        .tool(now)
        .tool(count)
        .tool(sha256)
        .tool(introduce)
        .tool(countdown)
        .resource(about_character)
        .prompt(Prompt::from_fn(review).complete("focus", ["bugs", "naming", "security", "speed"]))
}

/// The time now, in UTC.
#[tool(read_only, closed_world)]
async fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[derive(Serialize, JsonSchema)]
struct Counts {
    characters: usize,
    words: usize,
    lines: usize,
}

/// Count the characters, words and lines of a text.
#[tool(read_only, idempotent, closed_world)]
async fn count(
    /// The text.
    text: String,
) -> Json<Counts> {
    Json(Counts {
        characters: text.chars().count(),
        words: text.split_whitespace().count(),
        lines: text.lines().count(),
    })
}

/// The SHA-256 digest of a text, in hexadecimal.
#[tool(read_only, idempotent, closed_world)]
async fn sha256(
    /// The text.
    text: String,
) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Deserialize, JsonSchema)]
struct Person {
    /// How you are called.
    name: String,
    /// What you like to be greeted in.
    language: Option<String>,
}

/// Ask the user for a name, and greet them.
#[tool(read_only)]
async fn introduce(ctx: Ctx) -> Result<String> {
    let Answer::Accept(person) = ctx.ask::<Person>("person", "Who are you?").await? else {
        return Ok("The user would rather not say.".into());
    };
    let hello = match person.language.as_deref() {
        Some("de" | "German" | "Deutsch") => "Hallo",
        Some("fr" | "French" | "français") => "Bonjour",
        Some("es" | "Spanish" | "español") => "Hola",
        _ => "Hello",
    };
    Ok(format!("{hello}, {}!", person.name))
}

/// Count down, a second at a time, saying how far it is.
#[tool(read_only, closed_world, long_running)]
async fn countdown(
    /// From where.
    seconds: u32,
    ctx: Ctx,
) -> Result<String> {
    if seconds > 600 {
        return Err(zcp::CallError::new("`seconds` may be 600 at most"));
    }
    for second in 0..seconds {
        let left = format!("{} to go", seconds - second);
        ctx.progress_with(f64::from(second), f64::from(seconds), &left);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ctx.progress(f64::from(seconds), f64::from(seconds));
    Ok("Lift-off!".into())
}

#[derive(Serialize)]
struct Character {
    character: char,
    code_point: String,
    utf8: Vec<u8>,
    letter: bool,
}

/// What a character is made of.
#[resource(
    "unicode://{character}",
    name = "character",
    title = "Character",
    mime_type = "application/json"
)]
async fn about_character(character: String) -> Result<Json<Character>> {
    let mut all = character.chars();
    let (Some(character), None) = (all.next(), all.next()) else {
        return Err(zcp::CallError::not_found("exactly one character"));
    };
    Ok(Json(Character {
        character,
        code_point: format!("U+{:04X}", u32::from(character)),
        utf8: character.to_string().into_bytes(),
        letter: character.is_alphabetic(),
    }))
}

/// Review a piece of code.
#[prompt(title = "Code review")]
async fn review(
    /// The code.
    code: String,
    /// What to look at most: bugs, naming, security or speed.
    focus: Option<String>,
) -> String {
    let focus = focus.unwrap_or_else(|| "bugs".into());
    format!("Review this code. Look at {focus} first, and show how you would write it:\n\n{code}")
}
