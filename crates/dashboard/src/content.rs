//! Answers to requests: a text, or messages as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long a client may take for its request, for the page, and for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// Until when a client is served: [`PATIENCE`] from the last message that it took.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Mutex<Instant>>);

impl Lease {
    pub(crate) fn new() -> Lease {
        Lease(Arc::new(Mutex::new(Instant::now() + PATIENCE)))
    }

    pub(crate) fn renew(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PATIENCE;
    }

    pub(crate) fn end(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Whole(Option<Bytes>),
    Stream { messages: mpsc::Receiver<Bytes>, lease: Lease },
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match self.get_mut() {
            Content::Whole(body) => body.take().map(|body| Ok(Frame::data(body))),
            Content::Stream { messages, lease } => {
                let message = ready!(messages.poll_recv(context));
                lease.renew();
                message.map(|message| Ok(Frame::data(message)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Content::Stream { .. } => SizeHint::default(),
        }
    }
}

/// A server-sent event.
pub(crate) fn message(content: &impl Serialize) -> Bytes {
    // Plain data: it always is JSON.
    let json = serde_json::to_string(content).unwrap_or_default();
    Bytes::from(format!("data: {json}\n\n"))
}

/// Server-sent events, as they come.
pub(crate) fn events(messages: mpsc::Receiver<Bytes>, lease: &Lease) -> Response<Content> {
    let content = Content::Stream { messages, lease: lease.clone() };
    response(StatusCode::OK, "text/event-stream", content)
}

/// Lines of JSON, as they come.
pub(crate) fn lines(messages: mpsc::Receiver<Bytes>, lease: &Lease) -> Response<Content> {
    let content = Content::Stream { messages, lease: lease.clone() };
    response(StatusCode::OK, "application/x-ndjson", content)
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Content> {
    whole(status, "text/plain; charset=utf-8", text)
}

pub(crate) fn whole(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Content> {
    response(status, content_type, Content::Whole(Some(body.into())))
}

fn response(status: StatusCode, content_type: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
