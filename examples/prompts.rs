//! Prompts a person may choose. Run it: `cargo run -p zcp --example prompts`

use zcp::{Prompt, PromptMessage, Server, Stdio, Typed, prompt};

/// Explain a piece of code.
#[prompt(title = "Explain")]
async fn explain(
    /// The code.
    code: String,
    /// For whom: a beginner, unless said otherwise.
    reader: Option<String>,
) -> String {
    let reader = reader.unwrap_or_else(|| "a beginner".into());
    format!("Explain this code to {reader}, in at most ten sentences:\n\n{code}")
}

/// Plan a trip.
#[prompt]
async fn trip(country: String, city: String, days: u32) -> Vec<PromptMessage> {
    vec![
        PromptMessage::user(format!("I have {days} days in {city}, {country}. Plan them.")),
        PromptMessage::assistant("Gladly. What do you like most: food, art or walking?"),
        PromptMessage::user("Walking."),
    ]
}

/// What is offered may depend on what the other arguments are.
async fn cities(typed: Typed) -> Vec<String> {
    let cities: &[&str] = match typed.others.get("country").map(String::as_str) {
        Some("France") => &["Lyon", "Paris"],
        Some("Peru") => &["Cusco", "Lima"],
        _ => &[],
    };
    let fits = cities.iter().filter(|city| city.starts_with(&typed.value));
    fits.map(|city| (*city).to_owned()).collect()
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("prompts")
        .prompt(Prompt::from_fn(explain).complete("reader", ["a beginner", "a reviewer"]))
        .prompt(
            Prompt::from_fn(trip).complete("country", ["France", "Peru"]).complete("city", cities),
        )
        .serve(Stdio)
        .await
}
