//! A Redis of a test's own.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// A Redis on a free port, gone when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl RedisServer {
    /// Starts one.
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// Starts one with more arguments.
    pub async fn with(args: &[&str]) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("zcp-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("it can be made");
        let process = start(port, &folder, args);
        let server = Self { port, folder, process };
        server.is_there().await;
        server
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The address it listens at.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Gives it commands, one a line.
    pub async fn say(&self, commands: &[&str]) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(self.address()).await.expect("it is there");
        for command in commands {
            let line = format!("{command}\r\n");
            stream.write_all(line.as_bytes()).await.expect("it listens");
            let mut answer = [0; 1024];
            let length = stream.read(&mut answer).await.expect("it answers");
            assert_ne!(answer[..length].first(), Some(&b'-'), "{command}");
        }
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ended");
    }

    /// Starts it again where it was.
    pub async fn start(&mut self) {
        self.process = start(self.port, &self.folder, &[]);
        self.is_there().await;
    }

    async fn is_there(&self) {
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("redis does not start on port {}", self.port);
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it has an address").port()
}

fn start(port: u16, folder: &Path, args: &[&str]) -> Child {
    // `soak` is a test of another package, whose folder is deeper.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(1);
    let fetched = above.map(|folder| folder.join("target/test-tools/redis/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain(fetched)).expect("a path");
    Command::new("sh")
        .args(["-c", "exec redis-server \"$@\"", "redis-server"])
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
        .arg(folder)
        .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
        .args(args)
        .env("PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
