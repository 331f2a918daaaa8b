//! Lines to a server on a pipe, and back: a task of this process, or a process of its own.

use crate::examples::examples;
use serde_json::Value;
use std::{fmt, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines},
    process::{Child, Command},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zcp::{Pipe, Runtime, Transport};

/// One conversation, one message a line.
pub(crate) struct Lined {
    input: Box<dyn AsyncWrite + Send + Unpin>,
    output: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    server: Server,
}

/// Who reads the lines.
enum Server {
    Task(AbortOnDropHandle<()>),
    Process(Child),
}

impl Lined {
    /// With a server in this process.
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    pub(crate) fn new(runtime: Runtime) -> Self {
        let (input, server_input) = tokio::io::duplex(64 * 1024);
        let (server_output, output) = tokio::io::duplex(64 * 1024);
        let pipe = Pipe { input: server_input, output: server_output };
        let serving = pipe.serve(runtime, CancellationToken::new());
        let served = tokio::spawn(async move { serving.await.expect("pipes do not fail") });
        Self::of(input, output, Server::Task(AbortOnDropHandle::new(served)))
    }

    /// With the fixture server in a process of its own, on its standard input and output.
    pub(crate) fn process() -> Self {
        let mut command = Command::new(examples().join("everything"));
        command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Self::of(input, output, Server::Process(child))
    }

    fn of(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
        server: Server,
    ) -> Self {
        let output: Box<dyn AsyncRead + Send + Unpin> = Box::new(output);
        Self { input: Box::new(input), output: BufReader::new(output).lines(), server }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let written = self.input.write_all(line.as_bytes()).await;
        written.expect("the server reads");
        self.input.flush().await.expect("the server reads");
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(crate::PATIENCE, self.output.next_line());
        let line = line.await.expect("in time").expect("pipes do not fail");
        serde_json::from_str(&line.expect("the pipe is open")).expect("every line is JSON")
    }

    pub(crate) async fn close(self) {
        drop((self.input, self.output));
        match self.server {
            Server::Task(served) => served.await.expect("the server did not panic"),
            Server::Process(mut child) => {
                assert!(child.wait().await.expect("it ends").success(), "it ended in peace");
            }
        }
    }
}

impl fmt::Debug for Lined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lined(..)")
    }
}
