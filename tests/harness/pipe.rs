//! A client on a pair of pipes: what stdio is, without a process.

use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zcp::{Pipe, Runtime, Server, Transport};

/// One conversation over pipes.
#[derive(Debug)]
pub struct PipeClient {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    /// Cancelled to stop the server.
    pub stop: CancellationToken,
    served: AbortOnDropHandle<()>,
}

impl PipeClient {
    /// Starts the server.
    pub fn new(server: Server) -> Self {
        Self::serving(server.build().expect("the server has no mistakes"))
    }

    /// Serves a runtime that other clients may share.
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    pub fn serving(runtime: Runtime) -> Self {
        let (input, server_input) = tokio::io::duplex(1 << 20);
        let (server_output, output) = tokio::io::duplex(1 << 20);
        let stop = CancellationToken::new();
        let pipe = Pipe { input: server_input, output: server_output };
        let serving = pipe.serve(runtime, stop.clone());
        let served: JoinHandle<()> = tokio::spawn(async move {
            serving.await.expect("pipes do not fail");
        });
        let output = BufReader::new(output).lines();
        Self { input: Some(input), output, stop, served: AbortOnDropHandle::new(served) }
    }

    /// Opens a session.
    pub async fn open(server: Server, version: &str) -> Self {
        let mut client = Self::new(server);
        let answer = client.ask(crate::initialize("open", version)).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    /// Writes a line of any bytes.
    pub async fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().expect("the input was not closed");
        input.write_all(line).await.expect("the server reads");
        input.write_all(b"\n").await.expect("the server reads");
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        self.write(message.to_string().as_bytes()).await;
    }

    /// The next message; panics after [`crate::PATIENCE`], or at the end.
    pub async fn next(&mut self) -> Value {
        self.next_or_end().await.expect("the server said something before it ended")
    }

    /// The next message, or nothing at the end.
    pub async fn next_or_end(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(crate::PATIENCE, self.output.next_line());
        let line =
            line.await.expect("the server said something in time").expect("pipes do not fail")?;
        Some(serde_json::from_str(&line).expect("every line is JSON"))
    }

    /// Asserts that nothing is said for a while.
    pub async fn silent(&mut self, time: Duration) {
        if let Ok(line) = tokio::time::timeout(time, self.output.next_line()).await {
            panic!("expected silence, got {line:?}");
        }
    }

    /// Sends a request, and gives everything said up to its response, which is last.
    pub async fn exchange(&mut self, message: Value) -> Vec<Value> {
        let id = message["id"].clone();
        self.send(message).await;
        self.until(&id).await
    }

    /// Everything said up to the response of an id, which is last.
    pub async fn until(&mut self, id: &Value) -> Vec<Value> {
        let mut said = vec![];
        loop {
            let message = self.next().await;
            let last = message["id"] == *id && message.get("method").is_none();
            said.push(message);
            if last {
                return said;
            }
        }
    }

    /// Sends a request, and gives its response.
    pub async fn ask(&mut self, message: Value) -> Value {
        self.exchange(message).await.pop().expect("there is a response")
    }

    /// Ends the input, and waits for the server to end.
    pub async fn close(mut self) {
        drop(self.input.take());
        while self.next_or_end().await.is_some() {}
        let ended = tokio::time::timeout(crate::PATIENCE, &mut self.served);
        ended.await.expect("the server ended in time").expect("the server did not panic");
    }
}
