//! Requests: answered from the cache, or sent, and sent once more where that is safe.

use super::{Connection, dialect::Recovery, link::Link, rounds::Answered};
use crate::{
    error::{Error, Failure, Late, Result},
    request::{cache::Whom, round_trip::Options},
    transport::Fate,
};
use serde_json::{Map, Value};
use std::time::Duration;
use zcp_wire::MethodName;

/// Why a request was not answered, and whether it may be sent again.
struct Failed {
    error: Error,
    may_resend: bool,
}

impl Connection {
    /// Makes a request, within the total timeout of its options.
    pub(crate) async fn request(
        &self,
        method: impl Into<MethodName>,
        params: &Map<String, Value>,
        options: &Options,
    ) -> Result<Map<String, Value>> {
        let method = method.into();
        within(options.timeouts.total, self.cached_or_sent(&method, params, options)).await
    }

    async fn cached_or_sent(
        &self,
        method: &MethodName,
        params: &Map<String, Value>,
        options: &Options,
    ) -> Result<Map<String, Value>> {
        let whom = Whom { client: self.number, principal: self.endpoint.principal() };
        let wanted = match self.settings.cache.look(method.known(), params, whom) {
            Ok(result) => return Ok(result),
            Err(wanted) => wanted,
        };
        let answered = self.send(method, params, options).await?;
        // A result that depends on answers is for this request only.
        if let Some(wanted) = wanted.filter(|_| !answered.took_input) {
            self.settings.cache.keep(wanted, &answered.result);
        }
        Ok(answered.result)
    }

    /// Sends a request, and a second time if the first attempt failed and that is safe.
    async fn send(
        &self,
        method: &MethodName,
        params: &Map<String, Value>,
        options: &Options,
    ) -> Result<Answered> {
        let first = self.attempt(method, params, options).await;
        let answered = match first {
            Err(Failed { may_resend: true, .. }) => self.attempt(method, params, options).await,
            first => first,
        };
        answered.map_err(|failed| failed.error)
    }

    /// Sends a request once, and opens a connection first if there is none.
    async fn attempt(
        &self,
        method: &MethodName,
        params: &Map<String, Value>,
        options: &Options,
    ) -> Result<Answered, Failed> {
        let link = self.link().await.map_err(|error| Failed { error, may_resend: false })?;
        let fate = Fate::default();
        let answered = self.rounds(&link, method, params.clone(), options, &fate).await;
        answered.map_err(|error| {
            let may_resend = examine(&link, method, &error, &fate);
            Failed { error, may_resend }
        })
    }
}

/// Finds out what an error means for the link, which may be lost, and for the request: whether it
/// may be sent again.
fn examine(link: &Link, method: &MethodName, error: &Error, fate: &Fate) -> bool {
    if link.dialect.recovery(error, fate) == Some(Recovery::Reopen) {
        link.lose();
        return true;
    }
    let Error::Lost(failure) = error else { return false };
    match failure {
        Failure::Gone(_) => link.lose(),
        Failure::Unconfirmed(_) => (),
        _ => return false,
    }
    // The server may have carried the request out before its connection was gone.
    method.known().is_some_and(|method| method.may_repeat(|| false))
}

/// Waits for an answer, but not longer than that.
pub(crate) async fn within<T>(
    total: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = |_| Err(Error::Late(Late { after: total, about: None }));
    tokio::time::timeout(total, answer).await.unwrap_or_else(late)
}
