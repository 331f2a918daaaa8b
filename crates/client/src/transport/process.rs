//! A server in a child process: a message a line, in and out.

use super::{
    BATCH, End, Endpoint, MAX_MESSAGE, Opened, Silence, environment::Passed,
    switchboard::Switchboard,
};
use crate::{
    error::{Error, Failure, Result},
    support::limits,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, FusedFuture},
};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    collections::VecDeque,
    ffi::OsString,
    fmt,
    future::{Future, pending},
    io,
    path::PathBuf,
    pin::Pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{
    ByteString, Message,
    line::{Line, Lines},
};

/// Lines of standard error that are kept for errors.
const KEPT_LINES: usize = 12;
/// How much of each.
const KEPT_WIDTH: usize = 400;
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
    /// skipped.
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
        heard.end(status, over);
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
    mut unwritten: mpsc::Receiver<ByteString>,
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
    let mut lines = Lines::new(longest);
    loop {
        while let Some(line) = lines.next_line() {
            if let Line::Text(text) = &line
                && let Some(why) = limits::too_many(text)
            {
                return board.kill(Failure::Gone(why));
            }
            take(line, board, heard);
        }
        match output.read_buf(lines.buffer()).await {
            Ok(0) | Err(_) => break,
            Ok(_) => (),
        }
    }
    if let Some(line) = lines.finish() {
        take(line, board, heard);
    }
}

fn take(line: Line, board: &Switchboard, heard: &Heard) {
    let Line::Text(text) = line else {
        return heard.no_message(b"a line that is too long");
    };
    let frames = match Message::parse(text.clone()) {
        Ok(Message::One(frame)) => return board.take(frame),
        Ok(Message::Batch(batch)) => batch.frames(BATCH),
        Err(malformed) => Err(malformed),
    };
    match frames {
        Ok(frames) => frames.into_iter().flatten().for_each(|one| board.take(one)),
        Err(_) => heard.no_message(&text),
    }
}

async fn listen(errors: ChildStderr, heard: &Heard) {
    let mut lines = BufReader::new(errors);
    let mut line = vec![];
    loop {
        line.clear();
        // A line without an end is taken in parts.
        let mut part = (&mut lines).take(64 * 1024);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => heard.error(&line),
        }
    }
}

/// What is known of a process beside its messages.
struct Heard {
    /// Its command line.
    line: String,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    errors: VecDeque<String>,
    strays: u64,
    last_stray: String,
    /// What became of it.
    end: Option<String>,
}

impl Heard {
    fn new(line: String) -> Self {
        Self { line, said: Mutex::default() }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, line: &[u8]) {
        let line = shortened(line);
        tracing::debug!(target: "zcp_client::stderr", "{line}");
        let mut said = self.said();
        if said.errors.len() == KEPT_LINES {
            said.errors.pop_front();
        }
        said.errors.push_back(line);
    }

    fn no_message(&self, line: &[u8]) {
        let line = shortened(line);
        let mut said = self.said();
        said.strays += 1;
        // A flood of them is not to become another one.
        if said.strays.is_power_of_two() {
            tracing::warn!("the server wrote what is no message: {line}");
        }
        said.last_stray = line;
    }

    fn end(&self, status: Option<ExitStatus>, over: Over) {
        self.said().end = Some(match (over, status) {
            (Over::Asked, _) => "was stopped".to_owned(),
            (_, Some(status)) => format!("ended: {status}"),
            (_, None) => "ended".to_owned(),
        });
    }

    /// What became of the process, and what it said last.
    fn story(&self) -> String {
        let said = self.said();
        let mut story = format!("`{}` {}", self.line, said.end.as_deref().unwrap_or("still runs"));
        if said.strays > 0 {
            let (count, last) = (said.strays, &said.last_stray);
            story += &format!("; lines it wrote that are no messages: {count}, the last: {last}");
        }
        if !said.errors.is_empty() {
            story += "; its last words:";
            said.errors.iter().for_each(|line| story += &format!("\n  {line}"));
        }
        story
    }
}

fn shortened(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    match text.char_indices().nth(KEPT_WIDTH) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("program", &self.program).finish_non_exhaustive()
    }
}
