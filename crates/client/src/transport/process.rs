//! A server in a child process: a message a line, in and out.

use super::{
    BATCH, End, Endpoint, MAX_MESSAGE, Opened, Silence,
    answered::Answered,
    heard::{Heard, listen},
    outbox::Unwritten,
    passed_env::Passed,
    switchboard::Switchboard,
};
use crate::{
    error::{Error, Failure, Result},
    support::message_limits,
};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{BoxFuture, FusedFuture},
};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    ffi::OsString,
    fmt,
    future::{Future, pending},
    io,
    path::PathBuf,
    pin::Pin,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    Message,
    line::{Line, Lines},
};

/// What is shown instead of a secret.
const HIDDEN: &str = "…";
/// How long what is left to be said may take, by a dead process or to one that is left.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A program to start as a server. No shell is involved.
///
/// The server does not see the environment of this process. It gets `PATH`, `HOME`, the locale,
/// folders for temporary files and configuration, the settings of proxies and certificate
/// authorities, and what [`env`](Self::env) and [`pass_env`](Self::pass_env) add.
/// [`inherit_env`](Self::inherit_env) passes everything.
///
/// ```
/// use zcp_client::Process;
///
/// let server = Process::new("uvx").args(["mcp-server-time", "--local-timezone", "UTC"]);
/// ```
#[derive(Clone)]
pub struct Process {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    passed: Passed,
    folder: Option<PathBuf>,
    grace: Duration,
    max_message: usize,
}

impl Process {
    /// A program, by path or by name.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: vec![],
            env: vec![],
            passed: Passed::default(),
            folder: None,
            grace: Duration::from_secs(2),
            max_message: MAX_MESSAGE,
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Passes an environment variable of this process on to the server, if it is set. A name that
    /// ends with `*` passes all that begin so.
    #[must_use]
    pub fn pass_env(mut self, name: impl Into<OsString>) -> Self {
        self.passed.pass(name.into());
        self
    }

    /// Passes the whole environment of this process on to the server, with every secret in it.
    #[must_use]
    pub fn inherit_env(mut self) -> Self {
        self.passed.pass_all();
        self
    }

    /// The folder it runs in.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// How long it may take to end after its input has ended, and again after being asked to.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Maximum length of one message of the server, in bytes. Default: 64 MiB. A longer line is
    /// skipped, and the request it answers fails with [`Failure::TooLong`]; other requests are not
    /// affected.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// The command line, for people: without what looks like a secret.
    fn line(&self) -> String {
        let mut words = vec![quoted(&self.program.to_string_lossy())];
        let mut is_secret = false;
        for arg in &self.args {
            let arg = arg.to_string_lossy();
            words.push(match arg.split_once('=') {
                _ if is_secret && !arg.starts_with('-') => HIDDEN.to_owned(),
                Some((name, _)) if names_secret(name) => format!("{name}={HIDDEN}"),
                _ => quoted(&without_userinfo(&arg)),
            });
            is_secret = arg.starts_with('-') && !arg.contains('=') && names_secret(&arg);
        }
        words.join(" ")
    }

    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        if let Some(passed) = self.passed.chosen() {
            command.env_clear().envs(passed);
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true).spawn()
    }
}

/// Whether what is called so is nobody else's business.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["token", "secret", "password", "passwd", "key", "auth", "credential", "header"]
        .iter()
        .any(|word| name.contains(word))
}

/// A URL without who logs in and how.
fn without_userinfo(word: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = word.split_once("://") else { return word.into() };
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]).into(),
        None => word.into(),
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@+,%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("{word:?}"),
    }
}

impl Endpoint for Process {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        let opened = self.start().map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => ": is it installed, and spelled right?",
                _ => "",
            };
            let line = self.line();
            Error::Lost(Failure::Gone(format!("`{line}` cannot be started: {error}{hint}")))
        });
        Box::pin(std::future::ready(opened.map(|child| supervise(child, self))))
    }

    fn silence(&self) -> Silence {
        Silence::Age
    }

    fn name(&self) -> Option<String> {
        // Two folders may have different servers of the same command.
        let all = format!("{:?} {:?} {:?}", self.program, self.args, self.folder);
        let here = std::env::current_dir().unwrap_or_default();
        let digest = Sha256::digest(format!("{} {all}", here.display()));
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{} {digest}", self.program.to_string_lossy()))
    }
}

fn supervise(mut child: Child, process: &Process) -> Opened {
    let heard = Arc::new(Heard::new(process.line()));
    let witness = heard.clone();
    let (board, unwritten) = Switchboard::witnessed(Some(Arc::new(move || witness.story())));
    let group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let peer = Arc::new(board.clone());
    let (grace, longest, end) = (process.grace, process.max_message, End::default());
    end.spawn(|stop| async move {
        let (Some(input), Some(output), Some(errors)) = pipes else { return };
        let mut reading: Part<'_> = Box::pin(read(output, longest, &board, &heard));
        let mut listening: Part<'_> = Box::pin(listen(errors, &heard));
        let mut writing = Box::pin(write(input, unwritten, &stop).fuse());
        let over = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Over::Asked,
                () = &mut reading => break Over::Silent,
                _ = child.wait() => break Over::Dead,
                () = &mut listening => listening = Box::pin(pending()),
                () = &mut writing, if !writing.is_terminated() => (),
            }
        };
        // What was to be said last is: that nobody waits for an answer any more, say.
        if over == Over::Asked && !writing.is_terminated() {
            let _ = timeout(LAST_WORDS, &mut writing).await;
        }
        // Its input ends with this; what it says from now on is heard, so that it can end.
        drop(writing);
        let reading_on = async {
            if over != Over::Silent {
                reading.await;
            }
        };
        let mut hearing = Box::pin(async { tokio::join!(reading_on, listening) }.fuse());
        let status = tokio::select! {
            status = end_of(&mut child, &group, grace) => status,
            _ = &mut hearing => end_of(&mut child, &group, grace).await,
        };
        drop(group);
        if !hearing.is_terminated() {
            let _ = timeout(LAST_WORDS, hearing).await;
        }
        heard.end(status, matches!(over, Over::Asked));
        board.kill(Failure::Gone(heard.story()));
    });
    Opened { peer, end, ends_with_events: true }
}

type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Why a conversation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    /// Nobody wants it any more.
    Asked,
    /// The process closed its output.
    Silent,
    /// The process ended.
    Dead,
}

/// Waits for the end, and sees to it that there is one.
async fn end_of(child: &mut Child, group: &Group, grace: Duration) -> Option<ExitStatus> {
    for signal in [Signal::TERM, Signal::KILL] {
        if let Ok(ended) = timeout(grace, child.wait()).await {
            return ended.ok();
        }
        group.signal(signal);
    }
    child.wait().await.ok()
}

/// A process and all that it started. Nothing of it is left when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Writes what there is to say until it is time to stop.
async fn write(
    mut input: ChildStdin,
    mut unwritten: mpsc::Receiver<Unwritten>,
    stop: &CancellationToken,
) {
    loop {
        let text = tokio::select! {
            biased;
            text = unwritten.recv() => text,
            () = stop.cancelled() => return,
        };
        let Some(text) = text else { return };
        let mut line = text.into_bytes().to_vec();
        line.push(b'\n');
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

async fn read(mut output: ChildStdout, longest: usize, board: &Switchboard, heard: &Heard) {
    let (mut lines, mut skipped) = (Lines::new(longest), Answered::default());
    loop {
        while let Some(line) = lines.next_line_or(|part| skipped.read(part)) {
            match line {
                Line::Text(text) => take(&text, board, heard),
                Line::TooLong => {
                    heard.no_message(b"a line that is too long");
                    board.fail(&skipped.finish(), &message_limits::too_long(longest));
                }
            }
        }
        match output.read_buf(lines.buffer()).await {
            Ok(0) | Err(_) => break,
            Ok(_) => (),
        }
    }
    if let Some(Line::Text(text)) = lines.finish() {
        take(&text, board, heard);
    }
}

fn take(text: &Bytes, board: &Switchboard, heard: &Heard) {
    if let Some(why) = message_limits::too_many(text) {
        heard.no_message(why.as_bytes());
        return board.fail(&Answered::by(text), &Failure::TooLong(why));
    }
    let frames = match Message::parse(text.clone()) {
        Ok(Message::One(frame)) => return board.take(frame),
        Ok(Message::Batch(batch)) => batch.frames(BATCH),
        Err(malformed) => Err(malformed),
    };
    match frames {
        Ok(frames) => frames.into_iter().flatten().for_each(|one| board.take(one)),
        Err(_) => heard.no_message(text),
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("program", &self.program).finish_non_exhaustive()
    }
}
