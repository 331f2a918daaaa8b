//! Large answers and events count towards the bytes under way until their clients have read them.

use super::{busy, json_answer};
use crate::{
    auth::PeerAddress,
    runtime::Runtime,
    transport::weight::{NoRoom, OF_ONE, Weight},
};
use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use zcp_wire::{Id, Response as Answer, RpcError};

/// Bytes of a JSON answer or an event beyond which it counts. Smaller ones are bounded by the number
/// of connections.
const LARGE: usize = 64 * 1024;
/// What an answer counts for at most: one that is larger than the room of its network must not be
/// refused for ever.
const MOST: usize = OF_ONE / 2;

/// Takes the room of an answer, if it is large. Without room an error takes its place: 503, or
/// `in_session` an error with status 200 for the id that is given.
pub(super) fn weigh(
    response: Response,
    runtime: &Runtime,
    peer: Option<PeerAddress>,
    in_session: Option<Option<Id>>,
) -> Response {
    let length = response.body().size_hint().exact().unwrap_or_default();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length <= LARGE {
        return response;
    }
    let unread = Unread { runtime: runtime.clone(), peer };
    match (unread.weigh(length), in_session) {
        (Ok(None), _) => response,
        (Ok(Some(weight)), _) => response.map(|body| Body::new(Weighed { body, weight })),
        (Err(NoRoom), Some(id)) => {
            let result = Err(RpcError::internal(NoRoom::WHY));
            json_answer::answered_in_session(Answer { id, result })
        }
        (Err(NoRoom), None) => busy(NoRoom::WHY),
    }
}

/// A body that takes room. Each part of it does, too: the web server holds what it has taken from a
/// body until the system takes that.
struct Weighed {
    body: Body,
    weight: Weight,
}

impl HttpBody for Weighed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let keep = |data| weighed(data, &self.weight);
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(keep))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The room for texts that one peer has not read yet.
#[derive(Clone)]
pub(super) struct Unread {
    pub(super) runtime: Runtime,
    pub(super) peer: Option<PeerAddress>,
}

impl Unread {
    /// A text that takes room until it is dropped, if it is large.
    pub(super) fn hold(&self, text: Bytes) -> Result<Bytes, NoRoom> {
        Ok(match self.weigh(text.len())? {
            Some(weight) => weighed(text, &weight),
            None => text,
        })
    }

    /// Texts that take room until the last of them is dropped, if they are large together.
    pub(super) fn hold_all<'a>(
        &self,
        texts: impl Iterator<Item = &'a mut Bytes> + 'a,
    ) -> Result<(), NoRoom> {
        let texts: Vec<_> = texts.collect();
        if let Some(weight) = self.weigh(texts.iter().map(|text| text.len()).sum())? {
            texts.into_iter().for_each(|text| *text = weighed(std::mem::take(text), &weight));
        }
        Ok(())
    }

    pub(super) fn weigh(&self, bytes: usize) -> Result<Option<Weight>, NoRoom> {
        if bytes <= LARGE {
            return Ok(None);
        }
        Weight::of(bytes.min(MOST), &self.runtime, self.peer, None)
    }
}

fn weighed(data: Bytes, weight: &Weight) -> Bytes {
    Bytes::from_owner(Part { data, _weight: weight.clone() })
}

struct Part {
    data: Bytes,
    _weight: Weight,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::{StatusCode, header};
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_large_answer_takes_room_until_its_bytes_are_gone() {
        let runtime = crate::Server::new("test").build().unwrap();
        let peer = Some(PeerAddress("192.0.2.1:1".parse().unwrap()));
        let answer = |bytes: usize, in_session: Option<Option<Id>>| {
            let response = Response::new(Body::from(vec![b'x'; bytes]));
            weigh(response, &runtime, peer, in_session)
        };
        let small = answer(LARGE, None);
        let mut held: Vec<_> = (0..2).map(|_| answer(MOST + 1, None)).collect();
        assert!(held.iter().all(|one| one.status() == StatusCode::OK));
        let refused = answer(LARGE + 1, None);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        let refused = answer(LARGE + 1, Some(Some(Id::number(7))));
        assert_eq!(refused.status(), StatusCode::OK);
        let text = refused.into_body().collect().await.unwrap().to_bytes();
        assert!(text.starts_with(br#"{"jsonrpc":"2.0","id":7,"error""#), "{text:?}");
        // The body has ended, and its bytes wait to be written.
        let mut body = held.remove(0).into_body();
        let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(answer(LARGE + 1, None).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(part);
        assert_eq!(answer(LARGE + 1, None).status(), StatusCode::OK);
        drop(small);
    }
}
