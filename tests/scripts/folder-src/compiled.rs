//! A tool that is no script: it knows nothing but its input, its output and its variables.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Read, Write},
    process,
    thread::sleep,
    time::Duration,
};

fn main() -> io::Result<()> {
    let mut args = String::new();
    io::stdin().read_to_string(&mut args)?;
    match env::var("ARG_DO").as_deref() {
        Ok("progress") => {
            let path = env::var_os("ZCP_OUT").expect("the server says where");
            let mut out = OpenOptions::new().append(true).open(path)?;
            for line in ["1/4 begun", "2.5/4", "4/4 all done"] {
                writeln!(out, "progress {line}")?;
                sleep(Duration::from_millis(100));
            }
            println!("told");
        }
        Ok("exit") => {
            println!("half done");
            eprintln!("no such city");
            process::exit(3);
        }
        _ => println!("{{\"args\":{args}}}"),
    }
    Ok(())
}
