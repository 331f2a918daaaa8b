//! The limit of hyper: `limit-hyper typed|prepared http PORT MODE`.

use bench_limit::{prepared_answer, typed_answer};
use bench_shared::{Wire, one_thread};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, body::Incoming, header::CONTENT_TYPE, http::HeaderValue,
    server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{error::Error, io};
use tokio::net::TcpListener;

type Answer = fn(&[u8]) -> serde_json::Result<Bytes>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let answer: Answer = match args.next().as_deref() {
        Some("typed") => |request| typed_answer(request).map(Bytes::from),
        Some("prepared") => prepared_answer,
        _ => return Err("say `typed` or `prepared` first".into()),
    };
    let Wire::Http { port, .. } = Wire::from_args(args)? else {
        return Err("limit-hyper serves HTTP only; limit-stdio serves stdio".into());
    };
    one_thread()?.block_on(serve(port, answer))?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "connections live as long as the process")]
async fn serve(port: u16, answer: Answer) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(move |request| respond(request, answer));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// An error closes the connection.
async fn respond(
    request: Request<Incoming>,
    answer: Answer,
) -> Result<Response<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
    let request = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Full::new(answer(&request)?));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
