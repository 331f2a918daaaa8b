//! Asking the user in the middle of a call. Run it: `cargo run -p zcp --example asking`

use schemars::JsonSchema;
use serde::Deserialize;
use zcp::{Answer, Ctx, Result, Server, Stdio, tool};

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What you would like.
    dish: String,
    /// How many.
    portions: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Table {
    /// Inside or outside.
    outside: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Shall we?
    yes: bool,
}

/// Reserve a table and order a meal.
#[tool(not_destructive)]
async fn reserve(ctx: Ctx) -> Result<String> {
    // Both questions reach the user together.
    let (order, table) = tokio::join!(
        ctx.ask::<Order>("order", "What may we cook?"),
        ctx.ask::<Table>("table", "Where would you like to sit?"),
    );
    // Refusing or closing a question ends the call in words the model can read.
    let (order, table) = (order?.accepted()?, table?.accepted()?);
    // Newer clients call again with each answer, which runs all of this again: this runs once.
    let number = ctx.once("number", async || Ok(next_number())).await?;

    let question = format!("{} × {}. Shall we cook?", order.portions, order.dish);
    match ctx.ask::<Confirm>("confirm", &question).await? {
        Answer::Accept(Confirm { yes: true }) => {
            let place = if table.outside { "outside" } else { "inside" };
            Ok(format!("reservation {number}, {place}: {question}"))
        }
        _ => Ok("Another time, then.".into()),
    }
}

fn next_number() -> u32 {
    std::process::id()
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("restaurant").tool(reserve).serve(Stdio).await
}
