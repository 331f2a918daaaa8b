//! Pictures for people: fetched without anything that tells who asks, and taken for what they are.

use crate::{
    client::Client,
    error::{Error, Result},
    support::url_policy::{self, UrlPolicy},
};
use ::http::header::LOCATION;
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Url;
use zcp_wire::mcp::lifecycle::Icon;

/// Bytes a picture may have.
const LARGEST: usize = 1024 * 1024;
/// Redirects that are followed, to the same server only.
const REDIRECTS: usize = 3;
/// Kinds of pictures, and how each begins.
const KINDS: &[(&str, &[u8])] =
    &[("image/png", b"\x89PNG\r\n\x1a\n"), ("image/jpeg", b"\xff\xd8\xff"), ("image/gif", b"GIF8")];

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Picture {
    /// What it is, by its own bytes: `image/png`, `image/jpeg`, `image/gif`, `image/webp`, or
    /// `image/svg+xml`, which may hold scripts and is to be shown where none run.
    pub kind: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Client {
    /// Fetches an icon: of a `data:` or `https:` URI, without credentials, and not from this
    /// network unless the server is of it.
    pub async fn icon(&self, icon: &Icon) -> Result<Picture> {
        let bytes = match icon.src.strip_prefix("data:") {
            Some(data) => inline(data),
            None => self.fetch_icon(&icon.src).await,
        };
        let bytes = bytes.map_err(Error::Unable)?;
        if bytes.len() > LARGEST {
            return Err(Error::Unable(format!("the icon has more than {LARGEST} bytes")));
        }
        let kind = kind(&bytes).ok_or_else(|| Error::Unable("the icon is no picture".into()))?;
        match icon.mime_type.as_deref() {
            Some(said) if said != kind && !(said == "image/jpg" && kind == "image/jpeg") => {
                Err(Error::Unable(format!("the icon is said to be {said}, and is {kind}")))
            }
            _ => Ok(Picture { kind, bytes }),
        }
    }

    async fn fetch_icon(&self, src: &str) -> Result<Vec<u8>, String> {
        let policy = UrlPolicy::guarded();
        let server = self.connection().endpoint.name().and_then(|name| Url::parse(&name).ok());
        if let Some(server) = server {
            policy.begin_at(&server, None).await;
        }
        let mut url = policy.safe(src)?;
        for _ in 0..=REDIRECTS {
            let answered = url_policy::send(policy.get(url.clone(), "image/*")?).await?;
            if !answered.status.is_redirection() {
                return match answered.status.is_success() {
                    true => Ok(answered.text),
                    false => Err(format!("`{url}` answers with status {}", answered.status)),
                };
            }
            let next = answered.headers.get(LOCATION).and_then(|next| next.to_str().ok());
            let next = next.and_then(|next| url.join(next).ok());
            url = match next {
                Some(next) if next.origin() == url.origin() => next,
                _ => return Err(format!("`{url}` leads to another server")),
            };
        }
        Err(format!("`{url}` leads on and on"))
    }
}

/// The bytes of a `data:` URI.
fn inline(data: &str) -> Result<Vec<u8>, String> {
    // No byte takes more than three characters.
    if data.len() > 3 * LARGEST + 256 {
        return Err(format!("the icon has more than {LARGEST} bytes"));
    }
    let (about, data) = data.split_once(',').ok_or("the icon's data: URI has no data")?;
    match about.ends_with(";base64") {
        true => STANDARD.decode(data).map_err(|error| format!("the icon is no Base64: {error}")),
        false => Ok(percent_decoded(data)),
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let coded = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = coded.and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// What bytes are, by how they begin.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    if let Some((kind, _)) = KINDS.iter().find(|(_, begin)| bytes.starts_with(begin)) {
        return Some(kind);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let text = str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}').trim_start();
    let is_vector = text.starts_with("<svg") || text.starts_with("<?xml") && text.contains("<svg");
    is_vector.then_some("image/svg+xml")
}
