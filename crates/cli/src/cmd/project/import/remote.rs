//! A description of an API that is fetched from its URL.

use super::{LARGEST, draft::Imported, openapi, yaml};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use std::{error::Error, time::Duration};

/// How long fetching may take.
const TIME: Duration = Duration::from_secs(60);

/// The operations of the API that is described at a URL.
pub(super) async fn import(url: &str) -> Result<Imported, Box<dyn Error>> {
    let wrong = |why: &dyn std::fmt::Display| format!("{url}: {why}");
    let address = Url::parse(url).map_err(|error| wrong(&error))?;
    let text = fetched(address.clone()).await.map_err(|why| wrong(&why))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut value: Value = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| wrong(&error))?,
        false => yaml(text).map_err(|error| wrong(&error))?,
    };
    if value.get("openapi").or(value.get("swagger")).is_none() {
        let why = "it is no OpenAPI 3 or Swagger 2 description (JSON or YAML)";
        return Err(wrong(&why).into());
    }
    place(&mut value, &address);
    Ok(openapi::import(&value).map_err(|why| wrong(&why))?)
}

async fn fetched(url: Url) -> Result<String, String> {
    let said = |error: reqwest::Error| error.without_url().to_string();
    let agent = concat!("zcp/", env!("CARGO_PKG_VERSION"));
    let client = Client::builder().user_agent(agent).timeout(TIME).build().map_err(said)?;
    let mut response = client.get(url).send().await.map_err(said)?;
    if !response.status().is_success() {
        return Err(format!("HTTP {}", response.status()));
    }
    let mut bytes = vec![];
    while let Some(part) = response.chunk().await.map_err(said)? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > LARGEST {
            return Err(format!("it has more than {LARGEST} bytes"));
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// An API that does not say its whole address is where its description is.
fn place(value: &mut Value, url: &Url) {
    let origin = url.origin().ascii_serialization();
    if value.get("swagger").is_some() {
        if value.get("host").is_none()
            && let Some((scheme, host)) = origin.split_once("://")
        {
            value["host"] = host.into();
            value["schemes"] = json!([scheme]);
        }
        return;
    }
    if value["servers"].as_array().is_none_or(Vec::is_empty) {
        value["servers"] = json!([{ "url": origin }]);
    }
    for server in value["servers"].as_array_mut().into_iter().flatten() {
        let whole = server["url"].as_str().filter(|text| !text.contains("://"));
        if let Some(whole) = whole.and_then(|text| url.join(text).ok()) {
            server["url"] = whole.as_str().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_where_its_description_is() {
        let url = Url::parse("https://a.example:8443/docs/openapi.json").unwrap();
        let placed = |mut value: Value| {
            place(&mut value, &url);
            value
        };
        let v3 = placed(json!({ "openapi": "3.1.0", "servers": [{ "url": "/v1" }] }));
        assert_eq!(v3["servers"][0]["url"], "https://a.example:8443/v1");
        let none = placed(json!({ "openapi": "3.1.0" }));
        assert_eq!(none["servers"][0]["url"], "https://a.example:8443");
        let v2 = placed(json!({ "swagger": "2.0", "basePath": "/v1" }));
        assert_eq!((&v2["host"], &v2["schemes"]), (&json!("a.example:8443"), &json!(["https"])));
    }
}
