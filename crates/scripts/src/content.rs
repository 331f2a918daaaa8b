//! Files and bytes as content: pictures and sounds as what they are, the rest as resources.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};
use zcp::{Content, ResourceContents};

/// The largest file that becomes part of an answer.
const LARGEST: u64 = 10 * 1024 * 1024;

/// Files that a script names as parts of its answer: where they are, and which may be.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// What it may read itself, if that is not everything.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// Which files its printed output may name.
    pub(crate) printed: Printed,
}

/// Files that printed output may name. None unless the script opted in: what it prints may come
/// from another server, which must not choose files of this one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Printed {
    /// Folders such files are in.
    pub(crate) folders: Vec<PathBuf>,
    /// Files that stay private wherever they are, such as the audit log.
    pub(crate) never: Vec<PathBuf>,
}

impl Files {
    /// Those of a program that runs in a folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), read: None, printed: Printed::default() }
    }

    /// A file the script says is part of its answer.
    pub(crate) async fn said(&self, path: &str, mime: Option<&str>) -> Result<Content, String> {
        self.file(path, mime, Self::may_read).await
    }

    /// A file its output names.
    pub(crate) async fn printed(&self, path: &str, mime: Option<&str>) -> Result<Content, String> {
        self.file(path, mime, |files, path| files.may_read(path) && files.printed.has(path)).await
    }

    async fn file(
        &self,
        path: &str,
        mime: Option<&str>,
        may_be: fn(&Self, &Path) -> bool,
    ) -> Result<Content, String> {
        let (files, path, mime) = (self.clone(), self.folder.join(path), mime.map(str::to_owned));
        let read = move || of_file(&path, mime, |path| may_be(&files, path));
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Whether the script may read a file itself.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        self.read.as_ref().is_none_or(|folders| is_in(path, folders))
    }
}

impl Printed {
    /// Whether an output may name a file: one in its folders, and neither hidden nor in a hidden
    /// folder there.
    fn has(&self, path: &Path) -> bool {
        let is_plain = |path: &Path| {
            path.components().all(|part| !part.as_os_str().as_encoded_bytes().starts_with(b"."))
        };
        let is_private =
            || self.never.iter().any(|file| file.canonicalize().is_ok_and(|file| file == path));
        let inside = |folder: &PathBuf| {
            folder.canonicalize().is_ok_and(|folder| path.strip_prefix(folder).is_ok_and(is_plain))
        };
        self.folders.iter().any(inside) && !is_private()
    }
}

fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|one| path.starts_with(one))
}

/// A file as content, if it may be.
fn of_file(
    path: &Path,
    mime: Option<String>,
    may_be: impl Fn(&Path) -> bool,
) -> Result<Content, String> {
    // The client sees its name; where it is on this machine is for the log.
    let wrong = |why: &dyn std::fmt::Display| {
        tracing::warn!("{} does not become part of an answer: {why}", path.display());
        format!("{}: {why}", path.file_name().unwrap_or_default().to_string_lossy())
    };
    let file = open(path).map_err(|error| wrong(&error))?;
    let about = file.metadata().map_err(|error| wrong(&error))?;
    if !about.is_file() {
        return Err(wrong(&"it is no file"));
    }
    if !real_path(&file, path).is_ok_and(|real| may_be(&real)) {
        return Err(wrong(&"it is not where files of an answer may be"));
    }
    let mut bytes = vec![];
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > LARGEST {
        let length = about.len();
        return Err(wrong(&format!(
            "the file has {length} bytes, and may have {LARGEST}: link it"
        )));
    }
    let mime = mime.unwrap_or_else(|| mime_of(Some(path), &bytes));
    Ok(of_bytes(bytes, mime, &uri_of(path)))
}

/// Opens a file. A named pipe in its place is opened without waiting for who writes to it.
fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// Where an open file is, wherever its path leads by now.
fn real_path(file: &File, path: &Path) -> io::Result<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let _ = path;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        path.canonicalize()
    }
}

/// Bytes of a type as content.
pub(crate) fn of_bytes(bytes: Vec<u8>, mime: String, uri: &str) -> Content {
    match mime.split('/').next() {
        Some("image") if mime != "image/svg+xml" => Content::image(bytes, mime),
        Some("audio") => Content::audio(bytes, mime),
        _ => Content::embed(contents(bytes, mime, uri)),
    }
}

/// Bytes of a type as a resource's contents: text where they are text.
pub(crate) fn contents(bytes: Vec<u8>, mime: String, uri: &str) -> ResourceContents {
    let kind = mime.split('/').next().unwrap_or_default();
    let is_binary = matches!(kind, "image" | "audio" | "video") && !mime.ends_with("+xml");
    if is_binary || bytes.contains(&0) {
        return ResourceContents::blob(uri, mime, bytes);
    }
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(uri, mime, text),
        Err(error) => ResourceContents::blob(uri, mime, error.into_bytes()),
    }
}

/// What bytes are: by their beginning, by their file's name, or by being text or not.
pub(crate) fn mime_of(path: Option<&Path>, bytes: &[u8]) -> String {
    let by_name = || {
        let ending = path?.extension()?.to_str()?;
        match ending {
            // Servers of web pages call it a stream of video.
            "ts" => Some("text/typescript".to_owned()),
            "md" => Some("text/markdown".to_owned()),
            ending => mime_guess::from_ext(ending).first().map(|mime| mime.to_string()),
        }
    };
    let by_beginning = || infer::get(bytes).map(|kind| kind.mime_type().to_owned());
    let is_text = std::str::from_utf8(bytes).is_ok();
    let otherwise = || match is_text {
        true => "text/plain".to_owned(),
        false => "application/octet-stream".to_owned(),
    };
    match is_text {
        true => by_name().unwrap_or_else(otherwise),
        false => by_beginning().or_else(by_name).unwrap_or_else(otherwise),
    }
}

pub(crate) fn uri_of(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    url::Url::from_file_path(&path)
        .map_or_else(|()| format!("file://{}", path.display()), String::from)
}

/// A path as part of an address: what is not plain there is escaped.
pub(crate) fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
