//! The era in which every request says all there is to know, since 2026-07-28.

use super::{Dialect, Recovery, TaskDesign, meta_of, version_header};
use crate::{
    connection::{Connection, changes::Changes, client_profile::Settings, listen},
    error::{Error, Result},
    transport::Fate,
};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use zcp_wire::{
    Id, Method, MethodName, Revision, RpcError,
    error::HEADER_MISMATCH,
    header,
    mcp::{subscriptions::Filter, tools::Tool},
    meta,
    mirror::{self, Mirrored},
    revision::Questions,
};

/// A revision without sessions.
pub(in crate::connection) struct Stateless {
    pub(in crate::connection) revision: Revision,
}

impl Dialect for Stateless {
    fn prepare(
        &self,
        settings: &Settings,
        method: &MethodName,
        params: &mut Map<String, Value>,
        id: &Id,
    ) -> HeaderMap {
        if let Some(about) = meta_of(params, id) {
            self.describe(settings, about);
        }
        self.headers(settings, method, params)
    }

    fn questions(&self) -> Questions {
        Questions::AsResults
    }

    fn header_arguments(&self, tool: &Tool) -> Result<Vec<Mirrored>, String> {
        mirror::find(&tool.input_schema)
    }

    fn recovery(&self, error: &Error, _: &Fate) -> Option<Recovery> {
        let is_mismatch = matches!(error, Error::Refused(RpcError { code: HEADER_MISMATCH, .. }));
        is_mismatch.then_some(Recovery::ListTools)
    }

    fn listen(
        &self,
        connection: Arc<Connection>,
        filter: Filter,
    ) -> BoxFuture<'static, Result<Changes>> {
        Box::pin(listen::open(connection, filter))
    }

    fn tasks(&self) -> TaskDesign {
        TaskDesign::Decided
    }
}

impl Stateless {
    /// Writes what a session would remember of this client.
    fn describe(&self, settings: &Settings, about: &mut Map<String, Value>) {
        about.insert(meta::PROTOCOL_VERSION.into(), self.revision.as_str().into());
        about.insert(meta::CLIENT_CAPABILITIES.into(), json!(settings.capabilities(false)));
        if settings.say_info {
            about.insert(meta::CLIENT_INFO.into(), json!(settings.info));
        }
        if let Some(level) = settings.level {
            about.insert(meta::LOG_LEVEL.into(), json!(level));
        }
    }

    /// The headers that repeat a request's method, its name and some of its arguments.
    fn headers(
        &self,
        settings: &Settings,
        method: &MethodName,
        params: &Map<String, Value>,
    ) -> HeaderMap {
        let mut headers = version_header(self.revision);
        let mut insert = |name: &HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(&header::encode(value)) {
                headers.insert(name.clone(), value);
            }
        };
        insert(&header::METHOD, method);
        let member = method.known().and_then(Method::name_header_of);
        let named = member.and_then(|member| params.get(member.as_str())?.as_str());
        let Some(name) = named else { return headers };
        insert(&header::NAME, name);
        let known = method.is(Method::CallTool).then(|| settings.tools.get(name)).flatten();
        let args = params.get("arguments").unwrap_or(&Value::Null);
        for mirrored in known.iter().flat_map(|known| &known.mirrored) {
            let name = format!("{}{}", header::PARAM_PREFIX, mirrored.header);
            if let Some(text) = mirrored.text(args)
                && let Ok(value) = HeaderValue::from_str(&text)
                && let Ok(name) = HeaderName::try_from(name)
            {
                headers.insert(name, value);
            }
        }
        headers
    }
}
