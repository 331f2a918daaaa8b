//! The page a browser comes back to: on this machine, for one visit.

use super::grant::Begun;
use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::Url;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// How long a user may take.
const LOGIN: Duration = Duration::from_secs(10 * 60);
/// How long a browser may take to say what it wants, and how many bytes.
const REQUEST: Duration = Duration::from_secs(10);
const LARGEST: usize = 16 * 1024;
const PATH: &str = "/callback";

pub(super) type Show = Arc<dyn Fn(&Url) + Send + Sync>;

/// Opens the page to come back to: at the place of last time, if that is free.
pub(super) async fn begin(last: Option<Url>, show: Show) -> Result<Begun, String> {
    let port = last.as_ref().and_then(Url::port).unwrap_or(0);
    let listener = match TcpListener::bind(("127.0.0.1", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("127.0.0.1", 0)).await,
    };
    let unable = |error: std::io::Error| format!("a browser could not come back here: {error}");
    let listener = listener.map_err(unable)?;
    let port = listener.local_addr().map_err(unable)?.port();
    let redirect = Url::parse(&format!("http://127.0.0.1:{port}{PATH}"));
    let redirect = redirect.map_err(|error| error.to_string())?;
    let back = redirect.clone();
    let visit = Box::new(move |page: Url| {
        let waiting = async move {
            show(&page);
            let state = value(&page, "state");
            let came = timeout(LOGIN, wait(&listener, &back, state.as_deref())).await;
            came.map_err(|_| format!("nobody logged in within {} minutes", LOGIN.as_secs() / 60))
        };
        Box::pin(waiting) as _
    });
    Ok(Begun { redirect, visit })
}

fn value(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Waits for the browser that brings the answer; others may come by too.
async fn wait(listener: &TcpListener, back: &Url, state: Option<&str>) -> Url {
    let mut visitors = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => visitors.push(timeout(REQUEST, answer(stream, back, state))),
                // Too many files are open; some will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(answered) = visitors.next() => {
                if let Ok(Some(url)) = answered {
                    return url;
                }
            }
        }
    }
}

/// Answers a browser. The address it came to, if that is the answer that was waited for.
async fn answer(mut stream: TcpStream, back: &Url, state: Option<&str>) -> Option<Url> {
    let mut request = vec![];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > LARGEST || stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next()?).into_owned();
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let url = target.and_then(|target| back.join(target).ok());
    let url = url.filter(|url| url.path() == PATH && url.origin() == back.origin());
    let (status, words) = match &url {
        None => ("404 Not Found", "There is nothing here."),
        Some(url) if value(url, "state").as_deref() != state => {
            ("400 Bad Request", "This is not the login that was waited for.")
        }
        Some(url) if value(url, "error").is_some() => {
            ("200 OK", "You were not logged in. You can close this page.")
        }
        Some(_) => ("200 OK", "You are logged in. You can close this page."),
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>Login</title><p>{words}</p>\n");
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // It came, whether or not it stays for the answer.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
    url.filter(|_| status == "200 OK")
}
