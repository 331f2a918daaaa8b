//! One run of a script: started, fed, listened to, and ended with all that came of it.

mod bystander;
mod capture;
mod channel;
pub(crate) mod concurrency;
pub(crate) mod exit_status;
mod fair_pool;
mod leader;
pub(crate) mod orphans;
mod proc_stat;
mod process;
mod process_tree;
pub(crate) mod sandbox;
mod script_messages;
mod timeout;
mod unknown_words;
mod watchdog;

use capture::Seen;
pub(crate) use capture::{Complaints, Output};
pub(crate) use process::{Ceilings, Nursery, Recipe};
pub(crate) use process_tree::Share;
pub(crate) use script_messages::Said;
pub(crate) use timeout::{Allowed, Late};

use crate::{call_files::CallFiles, content::Files};
use channel::Channel;
use concurrency::Slot;
use futures_util::{FutureExt, future::FusedFuture};
use process::Process;
use process_tree::Tracked;
use script_messages::Listener;
use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    pin::pin,
    process::ExitStatus,
    time::Duration,
};
use timeout::Timer;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    time,
};
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
    /// What is run, for the log.
    pub(crate) name: String,
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
    /// Its slot among those that run.
    pub(crate) slot: Slot,
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

/// That a run used up its processor time, in words.
pub(crate) fn used_up(cpu: Duration) -> String {
    format!("it used more than {} s of processor time (`@limit cpu`)", cpu.as_secs().max(1))
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

/// Something that ends a run before its script does.
#[derive(Debug)]
enum Event {
    /// It printed too much.
    TooMuch,
    /// It cannot go on: it waits for an answer that comes with another call, for example.
    Failed(CallError),
}

/// Runs a script to its end. Dropping this ends the script.
///
/// The streams of the script are read by one future, which goes on after the script has ended: what
/// it wrote last may still be on its way, and its children may hold the streams open.
pub(crate) async fn run(nursery: &Nursery, job: &Job, ctx: Option<&Ctx>) -> Result<Ran> {
    let process = nursery.start(&job.recipe).map_err(|error| unstarted(&job.recipe, &error))?;
    let Process { stdin, stdout, stderr, channel, tracked, mut running } = process;
    let (Some(stdout), Some(stderr), Some(mut channel)) = (stdout, stderr, channel) else {
        return Err(CallError::new("the script has no output"));
    };
    let timer = Timer::new(job.allowed, channel.touched());
    let seen = Seen::default();
    let mut output = Output::new(job.shown, job.most, job.spill.clone(), seen.clone());
    let mut complaints = Complaints::new(seen.clone());
    let mut listener = ctx.map(|ctx| Listener::new(ctx, &timer, job));
    let (end, latest) = {
        // One event of standard output and one of the channel.
        let (events, mut happened) = mpsc::channel(2);
        let streams = async {
            tokio::join!(
                feed(stdin, job.recipe.stdin.as_deref()),
                complaints.read(stderr),
                read(&mut output, stdout, &events),
                hear(&mut listener, &mut channel, &events),
            )
        };
        let mut streams = pin!(streams.fuse());
        let end = tokio::select! {
            // An event before its end counts: without a reader of its output it ends by a signal.
            status = running.wait() => match happened.try_recv() {
                Ok(Event::TooMuch) => End::TooMuch,
                Ok(Event::Failed(error)) => return Err(error),
                // It may be known before its end that it was ended, or after.
                Err(_) => match tracked.excess() {
                    Some(why) => End::Exceeded(why),
                    None => End::Exited(status?),
                },
            },
            Some(event) = happened.recv() => match event {
                Event::TooMuch => {
                    running.end().await?;
                    End::TooMuch
                }
                Event::Failed(error) => return Err(error),
            },
            error = script_messages::answer_files(ctx, &timer, job) => return Err(error),
            why = tracked.exceeded() => {
                running.kill().await?;
                End::Exceeded(why)
            }
            late = timer.over() => End::Late(late, running.end().await?),
            never = forever(&mut streams) => match never {},
        };
        // Its output and its last words together: whoever writes on delays the result no longer.
        let latest = time::Instant::now() + LONGEST_REST;
        if !streams.is_terminated() {
            until_quiet(streams, &seen, &tracked, latest).await;
        }
        (end, latest)
    };
    let said = match listener {
        Some(mut listener) => {
            let rest = listener.hear_rest(&mut channel);
            // What was written before the end can be read in any case.
            let latest = latest.max(time::Instant::now() + QUIET);
            if time::timeout_at(latest, rest).await.is_err() {
                let name = &job.name;
                tracing::warn!(
                    "the last messages of `{name}` were dropped: reading them takes too long"
                );
            }
            listener.said
        }
        None => Said::default(),
    };
    Ok(Ran { end, output, complaints, said })
}

/// Polls a future for as long as this is, whether or not it completes.
async fn forever(future: impl Future) -> Infallible {
    future.await;
    std::future::pending().await
}

/// Reads standard output to its end.
async fn read(output: &mut Output, stdout: ChildStdout, events: &mpsc::Sender<Event>) {
    let event = match output.read(stdout).await {
        Ok(true) => return,
        Ok(false) => Event::TooMuch,
        Err(error) => Event::Failed(error.into()),
    };
    let _ = events.try_send(event);
}

/// Reads the streams to their end, or until nothing comes any more. Processes that hold them open are
/// ended, as all that come of a call are when the call ends.
async fn until_quiet<T>(
    rest: impl Future<Output = T>,
    seen: &Seen,
    tracked: &Tracked,
    latest: time::Instant,
) {
    let mut rest = pin!(rest);
    if time::timeout(REST, &mut rest).await.is_ok() {
        return;
    }
    tracked.end_rest().await;
    let _ = time::timeout_at(latest, async {
        loop {
            let before = seen.bytes();
            // Late on a busy machine is not quiet.
            if time::timeout(QUIET, &mut rest).await.is_ok() || seen.bytes() == before {
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
async fn hear(
    listener: &mut Option<Listener<'_>>,
    channel: &mut Channel,
    events: &mpsc::Sender<Event>,
) {
    if let Some(listener) = listener
        && let Err(error) = listener.listen(channel).await
    {
        let _ = events.try_send(Event::Failed(error));
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
