//! Every transport at once, and graceful shutdown. Run it:
//! `cargo run -p zcp --example every_wire -- --stdio --http 127.0.0.1:8787 --unix /tmp/zcp.sock`

use std::{error::Error, net::SocketAddr};
use zcp::{Http, Server, Stdio, shutdown_signal, tool};

/// Where the server may be asked to serve; what is `None` is not served.
#[derive(Default)]
struct Wires {
    stdio: Option<Stdio>,
    http: Option<Http>,
    unix: Option<Http>,
}

impl Wires {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut wires = Self::default();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--stdio" => wires.stdio = Some(Stdio),
                "--http" => wires.http = Some(Http::new(value()?.parse::<SocketAddr>()?)),
                "--unix" => wires.unix = Some(Http::unix(value()?)),
                _ => return Err(format!("{flag}: use --stdio, --http or --unix").into()),
            }
        }
        Ok(wires)
    }
}

/// Say it back.
#[tool(read_only, idempotent)]
async fn echo(text: String) -> String {
    text
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Wires { stdio, http, unix } = Wires::from_args(std::env::args().skip(1))?;
    let server = Server::new("echo").tool(echo);
    // A tuple of transports is a transport. Calls under way may finish, for ten seconds at most.
    Ok(server.serve_with_shutdown((stdio, http, unix), shutdown_signal()).await?)
}
