//! Servers in processes of their own, which can be killed.

use crate::{examples, http::free_address};
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use zcp_client::Http;

/// A server in a process of its own, at a port that stays.
#[derive(Debug)]
pub struct Replica {
    address: String,
    program: PathBuf,
    args: Vec<String>,
    process: Child,
}

impl Replica {
    /// `zcp serve`.
    pub async fn zcp(args: &[&str]) -> Self {
        Self::new(examples::zcp(), &[&["serve", "--json"], args].concat()).await
    }

    /// The fixture server.
    pub async fn everything(args: &[&str]) -> Self {
        Self::new(examples::examples().join("everything"), args).await
    }

    async fn new(program: PathBuf, args: &[&str]) -> Self {
        let address = free_address().to_string();
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let process = start(&program, &address, &args);
        let replica = Self { address, program, args, process };
        replica.is_ready().await;
        replica
    }

    /// A process that was started by other means.
    pub async fn of(process: Child, address: String) -> Self {
        let replica = Self { address, program: PathBuf::new(), args: vec![], process };
        replica.is_ready().await;
        replica
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The most memory it had so far, in KiB.
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        kib.expect("VmHWM is a number of KiB")
    }

    /// How a client gets there.
    pub fn http(&self) -> Http {
        Http::new(format!("http://{}/mcp", self.address)).expect("a URL")
    }

    /// What `/readyz` says.
    pub async fn ready(&self) -> (u16, String) {
        match reqwest::get(format!("http://{}/readyz", self.address)).await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(_) => (0, String::new()),
        }
    }

    /// Waits until it is ready.
    pub async fn is_ready(&self) {
        for _ in 0..200 {
            if self.ready().await.0 == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} is not ready: {:?}", self.address, self.ready().await);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ended");
    }

    /// Kills it, and starts it again.
    pub async fn again(&mut self) {
        self.kill();
        self.start().await;
    }

    /// Starts it again after its end.
    pub async fn start(&mut self) {
        self.process = start(&self.program, &self.address, &self.args);
        self.is_ready().await;
    }

    /// Tells it to stop, waits until it has, and starts it again.
    pub async fn stop(&mut self) {
        let id = self.process.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status().expect("kill is there");
        assert!(told.success());
        self.process.wait().expect("it ended");
        self.start().await;
    }
}

fn start(program: &PathBuf, address: &str, args: &[String]) -> Child {
    Command::new(program)
        .args(args)
        .args(["--http", address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
