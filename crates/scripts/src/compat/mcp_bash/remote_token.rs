//! The secret that clients of a project written for mcp-bash must show, where one is set.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, io, sync::Arc};
use tower::ServiceExt;
use zcp::{Call, Ctx, Fault, Op, Outcome, Server};

/// The shortest secret that is one.
const SHORTEST: usize = 32;
/// Where it is in `_meta` of a request.
const KEY: &str = "mcpbash/remoteToken";
const OTHER_KEY: &str = "remoteToken";

/// What clients must show with every request.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    /// Digests are compared, so that it takes as long whatever is shown.
    digest: [u8; 32],
    keys: [String; 2],
}

/// What it is called in `_meta`.
pub(crate) fn keys(env: &BTreeMap<String, String>) -> [String; 2] {
    let key = |variable: &str, usual: &str| {
        let said = env.get(variable).filter(|key| !key.is_empty());
        said.cloned().unwrap_or_else(|| usual.to_owned())
    };
    [key("MCPBASH_REMOTE_TOKEN_KEY", KEY), key("MCPBASH_REMOTE_TOKEN_FALLBACK_KEY", OTHER_KEY)]
}

impl Remote {
    /// The secret the server was given, if it was.
    pub(crate) fn of(env: &BTreeMap<String, String>) -> io::Result<Option<Arc<Self>>> {
        let Some(secret) = env.get("MCPBASH_REMOTE_TOKEN").filter(|secret| !secret.is_empty())
        else {
            return Ok(None);
        };
        if secret.len() < SHORTEST {
            let why = format!(
                "MCPBASH_REMOTE_TOKEN must have {SHORTEST} characters: make one with `openssl rand -hex 32`"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Some(Arc::new(Self { digest: Sha256::digest(secret).into(), keys: keys(env) })))
    }

    /// Has a server do nothing for clients that do not show it.
    pub(crate) fn guard(self: Arc<Self>, server: Server) -> Server {
        server.layer(tower::layer::layer_fn(move |inner: zcp::Service| {
            let remote = self.clone();
            tower::service_fn(move |call: Call| {
                let (remote, inner) = (remote.clone(), inner.clone());
                async move {
                    match remote.allows(&call) {
                        true => inner.oneshot(call).await,
                        false => {
                            let why = format!("`_meta` must have the right `{}`", remote.keys[0]);
                            Ok(Outcome::Fault(Fault::Invalid(why)))
                        }
                    }
                }
            })
        }))
    }

    /// Whether a client has shown it. An answer, the GET stream of a session, its resumption and its
    /// end have no `_meta` to show it in; the question and the session were begun with it.
    fn allows(&self, call: &Call) -> bool {
        match call.op {
            Op::Answer { .. } | Op::Resume | Op::Close => true,
            Op::Listen { .. } if call.ctx.params().is_none() => true,
            _ => self.is_shown(&call.ctx),
        }
    }

    fn is_shown(&self, ctx: &Ctx) -> bool {
        let params: Option<Value> = ctx.params().and_then(|text| serde_json::from_str(text).ok());
        let shown = params.as_ref().and_then(|params| {
            self.keys.iter().find_map(|key| params.get("_meta")?.get(key)?.as_str())
        });
        shown.is_some_and(|shown| <[u8; 32]>::from(Sha256::digest(shown)) == self.digest)
    }
}
