//! Files and bytes as content: pictures and sounds as what they are, the rest as resources.

use crate::call_files::open_where;
use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use zcp::{Content, ResourceContents};

/// The extension of user interfaces.
pub(crate) const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The type of bytes of which nothing is known.
pub(crate) const UNKNOWN: &str = "application/octet-stream";
/// The largest file that becomes part of an answer.
pub(crate) const LARGEST: u64 = 10 * 1024 * 1024;
/// How many bytes of files and of texts beside its output a call's answer has, together.
const MOST_BYTES: u64 = 32 * 1024 * 1024;
/// How many files the output of a call may name.
pub(crate) const MOST_FILES: usize = 100;

/// Files that a script names as parts of its answer: where they are, and which may be.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// Where they really are, if it may not read everything itself: its project and its own folders,
    /// not the system's.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// Which files its printed output may name.
    pub(crate) printed: Printed,
    /// How many bytes may still become part of the answer.
    left: Budget,
}

/// Bytes that a call's answer may still have.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    /// Takes bytes, before they are in memory. Says whether there were as many.
    fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
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
        let left = Budget(Arc::new(AtomicU64::new(MOST_BYTES)));
        Self { folder: folder.to_path_buf(), read: None, printed: Printed::default(), left }
    }

    /// Whether a text may still become part of the answer, which it then counts for.
    pub(crate) fn has_room_for(&self, text: &str) -> bool {
        self.left.take(text.len() as u64)
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
        let (files, path) = (self.clone(), self.folder.join(path));
        let bytes = self.read(&path, move |path| may_be(&files, path)).await.map_err(|why| {
            // The client sees its name; where it is on this machine is for the log.
            tracing::warn!("{} does not become part of an answer: {why}", path.display());
            format!("{}: {why}", path.file_name().unwrap_or_default().to_string_lossy())
        })?;
        let mime = mime.map_or_else(|| mime_of(Some(&path), &bytes), str::to_owned);
        Ok(of_bytes(bytes, mime, &uri_of(&path)))
    }

    /// The bytes of a regular file that is where it may be, or why they are not had.
    pub(crate) async fn read(
        &self,
        path: &Path,
        may_be: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<Vec<u8>, String> {
        let (path, left) = (path.to_path_buf(), self.left.clone());
        let read = move || {
            let file = open_where(&path, may_be).map_err(|error| error.to_string())?;
            let file = file.ok_or("it is not where files of an answer may be")?;
            // What is added to it from now on is not read.
            let length = file.metadata().map_err(|error| error.to_string())?.len();
            if length > LARGEST {
                return Err(format!("the file has more than {LARGEST} bytes: link it"));
            }
            if !left.take(length) {
                let why = "the files of one answer have more than";
                return Err(format!("{why} {MOST_BYTES} bytes together: link it"));
            }
            let mut bytes = vec![];
            file.take(length).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
            Ok(bytes)
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Whether the script may read a file itself.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        self.read.as_ref().is_none_or(|folders| folders.iter().any(|one| path.starts_with(one)))
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

pub(crate) fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|one| path.starts_with(one))
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

/// Whether a type is shown as text.
pub(crate) fn is_text(mime: &str) -> bool {
    mime.starts_with("text/") || mime == "application/json"
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
        false => UNKNOWN.to_owned(),
    };
    match is_text {
        true => by_name().unwrap_or_else(otherwise),
        false => by_beginning().or_else(by_name).unwrap_or_else(otherwise),
    }
}

/// How many bytes of a text are not UTF-8, if it is a text in which a few are not.
pub(crate) fn odd_bytes(bytes: &[u8]) -> Option<usize> {
    // Terminals are given some of the others: tabs, line and page breaks, backspace, escape.
    let is_binary = |byte: &u8| matches!(byte, 0..=7 | 11 | 14..=26 | 28..=31 | 127);
    let odd: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    (odd * 3 <= bytes.len() && !bytes.iter().any(is_binary)).then_some(odd)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_text_with_odd_bytes_is_told_from_other_bytes() {
        assert_eq!(odd_bytes(b"caf\xe9 au lait\n"), Some(1));
        assert_eq!(odd_bytes("\u{1b}[1mcaf\u{e9}\u{1b}[0m\tx\r\n".as_bytes()), Some(0));
        for bytes in [&b"a\0b"[..], b"\xff\xd8\xff\xe0", b"text \x01\xe9", b"\x80\x81ab"] {
            assert_eq!(odd_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn files_of_an_answer_are_limited_together() {
        let folder = tempfile::tempdir().unwrap();
        for (name, length) in [("a", MOST_BYTES / 4), ("small", 1), ("large", LARGEST + 1)] {
            fs::File::create(folder.path().join(name)).unwrap().set_len(length).unwrap();
        }
        let mut files = Files::of(folder.path());
        files.printed.folders.push(folder.path().to_path_buf());
        assert!(files.said("large", None).await.unwrap_err().contains("more than"));
        for _ in 0..2 {
            files.said("a", None).await.unwrap();
            files.printed("a", None).await.unwrap();
        }
        assert!(files.said("small", None).await.unwrap_err().contains("together"));
        assert!(files.printed("small", None).await.unwrap_err().contains("together"));
        assert!(files.read(&folder.path().join("small"), |_| true).await.is_err());
        assert!(!files.has_room_for("x"));
        // Another call has its own.
        Files::of(folder.path()).said("small", None).await.unwrap();
    }
}
