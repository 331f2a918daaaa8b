//! Structured output: a type is the schema. Run it: `cargo run -p zcp --example structured`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zcp::{CallError, Json, Result, Server, Stdio, tool};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

/// What a thermometer shows.
#[derive(Serialize, JsonSchema)]
struct Reading {
    city: String,
    degrees: f64,
    /// How sure the thermometer is, from 0 to 1.
    certainty: Option<f64>,
}

/// The temperature of a city.
#[tool(read_only, open_world)]
async fn temperature(
    /// A city's name, such as `Oslo`.
    city: String,
    /// Celsius unless said otherwise.
    unit: Option<Unit>,
) -> Result<Json<Reading>> {
    let celsius = match city.as_str() {
        "Oslo" => 4.5,
        "Lima" => 19.0,
        _ => return Err(CallError::new("no thermometer there: try Oslo or Lima")),
    };
    let degrees = match unit.unwrap_or(Unit::Celsius) {
        Unit::Celsius => celsius,
        Unit::Fahrenheit => celsius * 1.8 + 32.0,
    };
    Ok(Json(Reading { city, degrees, certainty: None }))
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("thermometer").tool(temperature).serve(Stdio).await
}
