//! Files and bytes as content: pictures and sounds as what they are, the rest as resources.

use crate::call_files::open_regular;
use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};
use tokio::{fs::File, io::AsyncReadExt};
use zcp::{Content, ResourceContents};

/// The largest file that becomes part of an answer.
pub(crate) const LARGEST: u64 = 10 * 1024 * 1024;

/// Files that a script names as parts of its answer: where they are, and which may be.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// What it may read itself, if that is not everything.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// Where files are that its output may name.
    pub(crate) own: Vec<PathBuf>,
}

impl Files {
    /// Those of a program that runs in a folder.
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), read: None, own: vec![folder.to_path_buf()] }
    }

    /// A file the script says is part of its answer.
    pub(crate) async fn said(&self, path: &str, mime: Option<&str>) -> Result<Content, String> {
        of_file(&self.folder.join(path), mime, |path| self.may_read(path)).await
    }

    /// A file its output names. That may be somebody else's words, and leads to no other place than
    /// the project and temporary folders.
    pub(crate) async fn printed(&self, path: &str, mime: Option<&str>) -> Result<Content, String> {
        let may_be = |path: &Path| self.may_read(path) && is_in(path, &self.own);
        of_file(&self.folder.join(path), mime, may_be).await
    }

    /// Whether the script may read a file itself.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        self.read.as_ref().is_none_or(|folders| is_in(path, folders))
    }
}

pub(crate) fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().filter_map(|folder| folder.canonicalize().ok()).any(|one| path.starts_with(one))
}

/// A file as content, if it may be.
async fn of_file(
    path: &Path,
    mime: Option<&str>,
    may_be: impl Fn(&Path) -> bool,
) -> Result<Content, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let bytes = read(path, LARGEST, may_be).await.map_err(wrong)?;
    let mime = mime.map_or_else(|| mime_of(Some(path), &bytes), str::to_owned);
    Ok(of_bytes(bytes, mime, &uri_of(path)))
}

/// The bytes of a regular file that is where it may be, or why they are not had.
pub(crate) async fn read(
    path: &Path,
    largest: u64,
    may_be: impl Fn(&Path) -> bool,
) -> Result<Vec<u8>, String> {
    let text = |why: &dyn Display| why.to_string();
    let (place, opened) = (path.to_path_buf(), path.to_path_buf());
    let open = move || open_regular(&opened).and_then(|file| Ok((file.metadata()?.len(), file)));
    let opened = tokio::task::spawn_blocking(open).await;
    let opened = opened.unwrap_or_else(|error| Err(io::Error::other(error)));
    let (length, file) = opened.map_err(|error| text(&error))?;
    let file = File::from_std(file);
    if !real_path(&file, &place).is_ok_and(|real| may_be(&real)) {
        return Err("it is not where files of an answer may be".to_owned());
    }
    let mut bytes = vec![];
    file.take(largest + 1).read_to_end(&mut bytes).await.map_err(|error| text(&error))?;
    match bytes.len() as u64 > largest {
        true => Err(format!("the file has {length} bytes, and may have {largest}: link it")),
        false => Ok(bytes),
    }
}

/// Where an open file is, wherever its path leads by now.
fn real_path(file: &File, path: &Path) -> std::io::Result<PathBuf> {
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
