//! A client in any revision, which asks and looks at the answer.

use crate::{NEWEST, modern, pipe::PipeClient, request};
use serde_json::Value;
use zcp::Server;

/// One conversation in one revision.
#[derive(Debug)]
pub struct Talk {
    /// The conversation itself.
    pub pipe: PipeClient,
    /// The revision.
    pub version: &'static str,
    asked: u64,
}

impl Talk {
    /// Opens a conversation, if the revision needs that.
    pub async fn open(server: Server, version: &'static str) -> Self {
        let pipe = match version {
            NEWEST => PipeClient::new(server),
            _ => PipeClient::open(server, version).await,
        };
        Self { pipe, version, asked: 0 }
    }

    /// Asks; gives the whole response.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let message = match self.version {
            NEWEST => modern(self.asked, method, params),
            _ => request(self.asked, method, params),
        };
        self.pipe.ask(message).await
    }

    /// Asks; gives the result.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params).await;
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Asks; gives the error's code, or 0 when there is a result.
    pub async fn code(&mut self, method: &str, params: Value) -> i64 {
        code(&self.ask(method, params).await)
    }
}

/// The code of an error; 0 for a result.
pub fn code(answer: &Value) -> i64 {
    match answer.get("result") {
        Some(_) => 0,
        None => answer["error"]["code"].as_i64().expect("an error's code"),
    }
}
