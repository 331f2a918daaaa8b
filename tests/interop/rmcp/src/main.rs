//! The steps with rmcp, told to discover what the server speaks.

#![expect(deprecated, reason = "sampling, roots and logging are among the steps while they last")]

mod handler;
mod steps;

use std::{env, process::ExitCode, time::Duration};

use serde_json::json;
use tokio::time::timeout;

use crate::steps::{STEPS, Session};

const STEP: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [transport, target] = arguments.as_slice() else {
        eprintln!("usage: interop-rmcp stdio|http TARGET");
        return ExitCode::FAILURE;
    };
    let mut session = Session::new(transport, target);
    for step in STEPS {
        let line = match timeout(STEP, session.perform(step)).await {
            Ok(Ok(detail)) => json!({ "step": step, "ok": true, "detail": detail }),
            Ok(Err(why)) => json!({ "step": step, "ok": false, "detail": why.to_string() }),
            Err(_) => json!({ "step": step, "ok": false, "detail": "timed out, at most 20 s" }),
        };
        println!("{line}");
    }
    ExitCode::SUCCESS
}
