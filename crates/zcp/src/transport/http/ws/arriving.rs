//! The messages of a WebSocket while they arrive: their bytes count, and they have a deadline.

use super::super::Shared;
use crate::{
    auth::PeerAddress,
    runtime::Runtime,
    transport::weight::{Arrived, LARGE},
};
use ::http::Extensions;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Sleep, sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};

/// Bytes read at once. The buffer is cleared before every read: at its usual 128 KiB that took longer
/// than a call.
const READ_BUFFER: usize = 4 * 1024;

/// How long the end of a connection waits for its client to read why.
const LINGER: Duration = Duration::from_secs(1);

/// The server's side of a WebSocket.
pub(super) type Socket = WebSocketStream<Arriving<TokioIo<Upgraded>>>;

/// A connection that has become a WebSocket.
pub(super) async fn socket(http: &Shared, stream: Upgraded, extensions: &Extensions) -> Socket {
    let peer = extensions.get::<PeerAddress>().copied();
    let (runtime, limit) = (http.runtime.clone(), http.limits.read);
    over(http, Arriving::new(TokioIo::new(stream), runtime, peer, limit)).await
}

/// The same connection without the buffer of its last message, which has the size of the largest one
/// there was. Between two messages, and when all is sent.
pub(super) async fn renew(http: &Shared, socket: Socket) -> Socket {
    over(http, socket.into_inner()).await
}

/// Ends a connection whose client may still be sending. What it sends is read and dropped for a moment:
/// a connection that is closed with unread bytes is reset, and a reset can overtake the close frame.
pub(super) async fn linger(socket: Socket) {
    let mut stream = socket.into_inner().stream;
    let mut dropped = [0; READ_BUFFER];
    let last = async {
        stream.shutdown().await?;
        while stream.read(&mut dropped).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    let _ = timeout(LINGER, last).await;
}

async fn over(http: &Shared, stream: Arriving<TokioIo<Upgraded>>) -> Socket {
    let largest = Some(http.limits.body);
    let config = WebSocketConfig::default()
        .max_message_size(largest)
        .max_frame_size(largest)
        .read_buffer_size(READ_BUFFER);
    WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await
}

/// A stream of frames. What has arrived of a message takes room, and is given up after a while.
pub(super) struct Arriving<S> {
    stream: S,
    frames: Frames,
    runtime: Runtime,
    peer: Option<PeerAddress>,
    /// What the unfinished message takes. Not of its conversation: a whole message that has no room
    /// there is answered.
    room: Arrived,
    limit: Duration,
    /// When the unfinished message is given up. Most messages arrive at once, and have none.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Arriving<S> {
    fn new(stream: S, runtime: Runtime, peer: Option<PeerAddress>, limit: Duration) -> Self {
        let (frames, room) = (Frames::default(), Arrived::default());
        Self { stream, frames, runtime, peer, room, limit, deadline: None }
    }

    /// Whether the message that was read last is all that was read.
    pub(super) fn is_between(&self) -> bool {
        self.frames.ended == 1 && !self.frames.is_unfinished()
    }

    /// Counts bytes that were read.
    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.frames.advance(bytes);
        if self.frames.ended > 0 {
            self.room = Arrived::default();
            self.deadline = None;
        }
        let grown = self.room.grow(self.frames.room(), &self.runtime, self.peer, None);
        grown.map_err(io::Error::other)
    }

    /// Whether the unfinished message has taken too long. Wakes the reader when it has.
    fn is_late(&mut self, context: &mut Context<'_>, waits: bool) -> bool {
        if waits && self.deadline.is_none() && self.frames.is_unfinished() {
            self.deadline = Some(Box::pin(sleep(self.limit)));
        }
        self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Arriving<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let most = this.frames.at_most().min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        let polled = Pin::new(&mut this.stream).poll_read(context, &mut part);
        let counted = this.count(part.filled());
        let read = part.filled().len();
        buffer.advance(read);
        counted?;
        if this.is_late(context, polled.is_pending()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Arriving<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Where one frame ends and the next begins, by RFC 6455 section 5.2.
#[derive(Default)]
struct Frames {
    header: [u8; 14],
    /// Bytes of the header that are there; none between two frames.
    known: usize,
    /// Bytes of the payload that are there, and those that are not.
    payload: usize,
    left: usize,
    /// Bytes of the message's earlier frames, if its last one is yet to come.
    earlier: Option<usize>,
    /// How often the last read came to the end of a message, or of a control frame between two.
    ended: usize,
}

impl Frames {
    /// Whether a message, or a frame between two, has begun and not ended.
    fn is_unfinished(&self) -> bool {
        self.known > 0 || self.earlier.is_some()
    }

    /// Bytes of the unfinished message.
    fn bytes(&self) -> usize {
        self.earlier.unwrap_or(0) + self.payload
    }

    /// What the unfinished message takes in memory. Its earlier frames are put together in a buffer
    /// that grows by doubling.
    fn room(&self) -> usize {
        self.bytes() + self.earlier.unwrap_or(0)
    }

    /// How much may be read at once. A large message is read up to its end and no further.
    fn at_most(&self) -> usize {
        if self.bytes().saturating_add(self.left) < LARGE {
            return usize::MAX;
        }
        if self.left > 0 { self.left } else { self.header_size() - self.known }
    }

    /// Bytes of the header, as far as it says: with the mask, and a length of two bytes or eight.
    fn header_size(&self) -> usize {
        if self.known < 2 {
            return 2;
        }
        let length = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + usize::from(self.header[1] >> 7) * 4
    }

    /// Bytes of the payload, as a whole header says.
    fn payload_size(&self) -> usize {
        let length = match self.header[1] & 0x7f {
            126 => &self.header[2..4],
            127 => &self.header[2..10],
            short => return usize::from(short),
        };
        let length = length.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// Follows bytes that were read.
    fn advance(&mut self, mut bytes: &[u8]) {
        self.ended = 0;
        while let [first, rest @ ..] = bytes {
            if self.left > 0 {
                let part = self.left.min(bytes.len());
                self.payload += part;
                self.left -= part;
                bytes = &bytes[part..];
            } else {
                self.header[self.known] = *first;
                self.known += 1;
                bytes = rest;
                if self.known < self.header_size() {
                    continue;
                }
                self.left = self.payload_size();
            }
            if self.left == 0 {
                self.end();
            }
        }
    }

    /// A frame has ended.
    fn end(&mut self) {
        let (is_last, is_control) = (self.header[0] & 0x80 != 0, self.header[0] & 0x08 != 0);
        match (is_control, is_last) {
            (true, _) => (),
            (false, true) => self.earlier = None,
            (false, false) => self.earlier = Some(self.bytes()),
        }
        (self.known, self.payload) = (0, 0);
        self.ended += usize::from(self.earlier.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::weight::{ALL, NoRoom, Weight};

    /// A frame with a mask of zeros.
    fn frame(first: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![first, 0x80 | 127];
        frame.extend((payload as u64).to_be_bytes());
        frame.extend(vec![0; 4 + payload]);
        frame
    }

    const PONG: [u8; 6] = [0x8a, 0x80, 0, 0, 0, 0];
    const PART: usize = 64 * 1024;

    #[test]
    fn frames_are_followed_however_they_are_cut() {
        let mut all = frame(0x01, 5000);
        all.extend(PONG);
        all.extend(frame(0x80, 70));
        let whole = all.len();
        all.extend([0x81, 0x82, 0, 0, 0, 0, b'{', b'}']);
        for cut in [1, 2, 3, 7, 4096, all.len()] {
            let (mut frames, mut ended) = (Frames::default(), vec![]);
            let mut at = 0;
            for part in all.chunks(cut) {
                frames.advance(part);
                at += part.len();
                ended.extend(vec![at; frames.ended]);
                assert!(at >= whole || (frames.is_unfinished() && frames.ended == 0));
            }
            assert_eq!(ended.len(), 2, "{cut}");
            assert!(ended[0] >= whole && !frames.is_unfinished() && frames.bytes() == 0);
        }
    }

    #[test]
    fn a_large_message_is_read_up_to_its_end() {
        let mut all = frame(0x01, 5000);
        all.extend(PONG);
        all.extend(frame(0x80, 70));
        let whole = all.len();
        all.extend(PONG);
        let (mut frames, mut at) = (Frames::default(), 0);
        while at < all.len() && (frames.ended != 1 || frames.is_unfinished()) {
            let most = frames.at_most().min(READ_BUFFER).min(all.len() - at);
            frames.advance(&all[at..at + most]);
            at += most;
        }
        assert_eq!(at, whole);
    }

    async fn read(stream: &mut Arriving<&[u8]>) -> io::Result<usize> {
        let mut buffer = vec![0; READ_BUFFER];
        let mut all = 0;
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok(all),
                read => all += read,
            }
        }
    }

    #[tokio::test]
    async fn an_unfinished_message_takes_room_until_it_is_whole() {
        let runtime = crate::Server::new("test").build().unwrap();
        // An unfinished message of two frames takes twice the first one and the second.
        let _held = Weight::of(ALL - 3 * PART, &runtime, None, None).unwrap();
        let open = |bytes| Arriving::new(bytes, runtime.clone(), None, Duration::from_secs(1));
        let unfinished = [frame(0x01, PART), frame(0x00, PART / 2)].concat();
        let mut first = open(&unfinished[..]);
        read(&mut first).await.unwrap();
        let refused = read(&mut open(&unfinished[..])).await.unwrap_err();
        assert!(refused.get_ref().unwrap().is::<NoRoom>());
        first.stream = &PONG;
        read(&mut first).await.unwrap();
        assert!(read(&mut open(&unfinished[..])).await.is_err());
        let last = frame(0x80, 8);
        first.stream = &last;
        read(&mut first).await.unwrap();
        assert!(first.is_between());
        read(&mut open(&unfinished[..])).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_do_not_move_the_deadline() {
        let runtime = crate::Server::new("test").build().unwrap();
        let (mut client, stream) = tokio::io::duplex(PART);
        let mut stream = Arriving::new(stream, runtime, None, Duration::from_secs(30));
        let began = tokio::time::Instant::now();
        let client = async move {
            // No message is under way: nothing is late.
            for _ in 0..10 {
                sleep(Duration::from_secs(8)).await;
                client.write_all(&PONG).await.unwrap();
            }
            client.write_all(&frame(0x01, 10)).await.unwrap();
            while client.write_all(&PONG).await.is_ok() {
                sleep(Duration::from_secs(8)).await;
            }
        };
        let server = async move {
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer).await {
                    Ok(read) => assert!(read > 0),
                    Err(error) => return error,
                }
            }
        };
        let error = tokio::select! {
            error = server => error,
            () = client => unreachable!(),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 110);
    }
}
