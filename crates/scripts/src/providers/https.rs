//! The provider of `https:`: one GET to a host that is allowed, bounded, and led nowhere else.

use super::{Got, provider_rules::Settings, reach::Way};
use crate::{
    host::{Host, secrets},
    project::Project,
};
use reqwest::{
    Certificate, Client, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION},
    redirect,
};
use zcp::{CallError, Result};

/// Where hosts are allowed.
const SETTING: &str = "[providers.https] allow";

/// What is there.
pub(super) async fn read(uri: &str, project: &Project, host: &Host) -> Result<Got> {
    let settings = Settings::https(project, &host.environment);
    if !settings.is_enabled {
        return Err(CallError::new("`https` is not enabled: see `[providers.https]` of zcp.toml"));
    }
    let reading = fetch(uri, &settings, project, host);
    match tokio::time::timeout(settings.time, reading).await {
        Ok(got) => got,
        Err(_) => Err(CallError::new(format!("it took longer than {} s", settings.time.as_secs()))),
    }
}

async fn fetch(uri: &str, settings: &Settings, project: &Project, host: &Host) -> Result<Got> {
    let way = settings.hosts.way(uri, SETTING).await?;
    let headers = headers(&way, settings, project, host).await?;
    let client = client(&way, settings).await?;
    let response = client.get(way.url.clone()).headers(headers).send().await.map_err(explain)?;
    let status = response.status();
    if status.is_redirection() {
        let target = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let target = target.unwrap_or("an address it does not name");
        return Err(CallError::new(format!("it leads to {target}, which is not followed")));
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Err(CallError::NotFound(uri.to_owned()));
    }
    if !status.is_success() {
        return Err(CallError::new(format!("`{}` answered {status}", way.host)));
    }
    let mime = response.headers().get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).map(tidy);
    let bytes = body(response, settings.limit).await?;
    Ok(Got { bytes, mime: mime.filter(|mime| !mime.is_empty()) })
}

/// A client that knows one host, where it was found, and goes nowhere else.
async fn client(way: &Way, settings: &Settings) -> Result<Client> {
    let mut client = Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .https_only(true)
        .user_agent(&settings.user_agent)
        .resolve_to_addrs(&way.host, &way.addresses);
    if let Some(path) = &settings.ca {
        let wrong = |why: String| {
            tracing::warn!("[providers.https] ca: {}: {why}", path.display());
            CallError::new("the server's certificates for `https` cannot be read")
        };
        let pem = tokio::fs::read(path).await.map_err(|error| wrong(error.to_string()))?;
        let all = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.to_string()))?;
        client = client.tls_certs_merge(all);
    }
    client.build().map_err(explain)
}

/// The headers a host is given, with the secrets they name.
async fn headers(
    way: &Way,
    settings: &Settings,
    project: &Project,
    host: &Host,
) -> Result<HeaderMap> {
    let mut all = HeaderMap::new();
    for (name, value) in settings.headers(&way.host, way.port, way.is_listed) {
        let value = match value.find("secret://") {
            Some(at) => {
                let (before, reference) = value.split_at(at);
                let secret = secrets::fetch(reference, host, &project.root).await;
                format!("{before}{}", secret.map_err(CallError::new)?)
            }
            None => value.to_owned(),
        };
        let wrong = |_| CallError::new(format!("the header `{name}` cannot be sent"));
        let key = HeaderName::try_from(name).map_err(|error| wrong(error.to_string()))?;
        let mut value = HeaderValue::try_from(value).map_err(|error| wrong(error.to_string()))?;
        value.set_sensitive(true);
        all.insert(key, value);
    }
    Ok(all)
}

/// All that comes, as long as it is not too much.
async fn body(mut response: Response, limit: u64) -> Result<Vec<u8>> {
    let too_large = || CallError::new(format!("it is too large: it may have {limit} bytes"));
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut bytes = vec![];
    while let Some(part) = response.chunk().await.map_err(explain)? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > limit {
            return Err(too_large());
        }
    }
    Ok(bytes)
}

/// A type without what goes without saying.
fn tidy(mime: &str) -> String {
    let (kind, rest) = mime.split_once(';').unwrap_or((mime, ""));
    let rest = rest.trim().replace('"', "");
    match rest.eq_ignore_ascii_case("charset=utf-8") || rest.is_empty() {
        true => kind.trim().to_owned(),
        false => mime.trim().to_owned(),
    }
}

/// What went wrong, to its innermost reason. The address is known already.
fn explain(error: reqwest::Error) -> CallError {
    let error = error.without_url();
    let mut reason: &dyn std::error::Error = &error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    CallError::new(format!("it cannot be fetched: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_tidied() {
        assert_eq!(tidy("text/html; charset=UTF-8"), "text/html");
        assert_eq!(tidy("text/html;charset=\"utf-8\""), "text/html");
        assert_eq!(tidy("text/html; charset=latin1"), "text/html; charset=latin1");
        assert_eq!(tidy("application/json"), "application/json");
    }
}
