//! One run of a script: started, fed, listened to, and ended with all that came of it.

mod bystander;
mod capture;
mod channel;
mod family;
mod guard;
mod leader;
mod listen;
mod patience;
mod process;

use capture::Seen;
pub(crate) use capture::{Complaints, Output};
pub(crate) use family::{Member, Share};
pub(crate) use listen::Said;
pub(crate) use patience::{Allowed, Late};
pub(crate) use process::{Ceilings, Nursery, Recipe};

use crate::{call_files::CallFiles, content::Files, turns::Place};
use channel::Channel;
use listen::Listener;
use patience::Patience;
use process::Process;
use std::{
    io,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitStatus,
    time::Duration,
};
use tokio::{io::AsyncWriteExt, process::ChildStdin, time::timeout};
use zcp::{CallError, Ctx, Result};

/// How long the end of a script's output may come after its own: others may hold it open.
const REST: Duration = Duration::from_millis(200);
/// How long it must be quiet once they are ended.
const QUIET: Duration = Duration::from_secs(1);
/// How long its output may go on after it, on a busy machine.
const LONGEST_REST: Duration = Duration::from_secs(5);

/// What to run, and how much of it is borne.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) recipe: Recipe,
    pub(crate) allowed: Allowed,
    /// How much of the output is held, and how much there may be.
    pub(crate) shown: usize,
    pub(crate) most: u64,
    /// Where the output goes when it is more than is held.
    pub(crate) spill: PathBuf,
    /// Where it may put questions.
    pub(crate) questions: Option<Questions>,
    /// What it may know and not say.
    pub(crate) secrets: Vec<String>,
    /// Files it may name.
    pub(crate) files: Files,
    /// Its place among those that run.
    pub(crate) place: Place,
}

/// Files through which a script asks and is answered.
#[derive(Debug)]
pub(crate) struct Questions {
    pub(crate) files: CallFiles,
    pub(crate) asked: &'static str,
    pub(crate) answered: &'static str,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) output: Output,
    pub(crate) complaints: Complaints,
    pub(crate) said: Said,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// It took too long, and was ended.
    Late(Late, ExitStatus),
    /// It wrote too much.
    TooMuch,
    /// It took more of the machine than it may, and was ended: in words.
    Exceeded(String),
}

/// Runs a script to its end. Dropping this ends the script.
pub(crate) async fn run(nursery: &Nursery, job: &Job, ctx: Option<&Ctx>) -> Result<Ran> {
    let process = nursery.start(&job.recipe).map_err(|error| unstarted(&job.recipe, &error))?;
    let Process { stdin, stdout, stderr, channel, member, mut running } = process;
    let (Some(stdout), Some(stderr), Some(mut channel)) = (stdout, stderr, channel) else {
        return Err(CallError::new("the script has no output"));
    };
    let patience = Patience::new(job.allowed, channel.touched());
    let seen = Seen::default();
    let mut output = Output::new(job.shown, job.most, job.spill.clone(), seen.clone());
    let mut complaints = Complaints::new(seen.clone());
    let mut listener = ctx.map(|ctx| Listener::new(ctx, &patience, job));
    let end = {
        let feeding = feed(stdin, job.recipe.stdin.as_deref());
        let (mut reading, mut is_read) = (pin!(output.read(stdout)), false);
        let mut beside = pin!(async { tokio::join!(feeding, complaints.read(stderr)) });
        let mut is_beside_done = false;
        let (mut listening, mut is_heard) = (pin!(hear(&mut listener, &mut channel)), false);
        let mut over = pin!(patience.over());
        let mut exceeded = pin!(member.exceeded());
        let mut asking = pin!(listen::answer_files(ctx, &patience, job));
        let end = loop {
            tokio::select! {
                status = running.wait() => break End::Exited(status?),
                heard = &mut listening, if !is_heard => {
                    heard?;
                    is_heard = true;
                }
                whole = &mut reading, if !is_read => {
                    is_read = true;
                    if !whole? {
                        running.end().await?;
                        break End::TooMuch;
                    }
                }
                asked = &mut asking => return Err(asked),
                _ = &mut beside, if !is_beside_done => is_beside_done = true,
                why = &mut exceeded => {
                    running.kill().await?;
                    break End::Exceeded(why);
                }
                late = &mut over => break End::Late(late, running.end().await?),
            }
        };
        // What it said last may still be on its way.
        let rest = async {
            let heard = async {
                if !is_heard {
                    let _ = listening.await;
                }
            };
            let read = async {
                if !is_read {
                    let _ = reading.await;
                }
            };
            let beside = async {
                if !is_beside_done {
                    let _ = beside.await;
                }
            };
            tokio::join!(heard, read, beside)
        };
        until_quiet(rest, &seen, &member).await;
        end
    };
    let said = match listener {
        Some(mut listener) => {
            if timeout(LONGEST_REST, listener.hear_rest(&mut channel)).await.is_err() {
                tracing::warn!("what a script said last is not heard: it takes too long");
            }
            listener.said
        }
        None => Said::default(),
    };
    Ok(Ran { end, output, complaints, said })
}

/// Reads the rest: to its end, or until nothing comes any more. Whoever holds it open is ended, as
/// all that comes of a call is when the call ends.
async fn until_quiet<T>(rest: impl Future<Output = T>, seen: &Seen, member: &Member) {
    let mut rest = pin!(rest);
    if timeout(REST, &mut rest).await.is_ok() {
        return;
    }
    member.end_rest().await;
    let _ = timeout(LONGEST_REST, async {
        loop {
            let before = seen.bytes();
            // Late on a busy machine is not quiet.
            if timeout(QUIET, &mut rest).await.is_ok() || seen.bytes() == before {
                return;
            }
        }
    })
    .await;
}

/// Gives a script its input. One that does not read what it is given may do so.
async fn feed(stdin: Option<ChildStdin>, text: Option<&[u8]>) {
    if let (Some(mut stdin), Some(text)) = (stdin, text) {
        let _ = stdin.write_all(text).await;
    }
}

/// Listens to a script that has somebody to talk to.
async fn hear(listener: &mut Option<Listener<'_>>, channel: &mut Channel) -> Result<()> {
    match listener {
        Some(listener) => listener.listen(channel).await,
        None => Ok(()),
    }
}

/// Why something did not start: the system says the same of a program and of a folder that is not there.
fn unstarted(recipe: &Recipe, error: &io::Error) -> CallError {
    CallError::new(match recipe.cwd.is_dir() {
        true => format!("{} cannot be started: {error}", name(&recipe.program)),
        false => {
            let folder = name(&recipe.cwd);
            format!("it cannot be started: the folder `{folder}` it is to run in is not there")
        }
    })
}

fn name(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}
