//! The server of the page: hyper on one thread.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use telemetry::{RuleSnapshot, Telemetry};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task;
use tokio::time::{self, Instant, MissedTickBehavior};

use crate::hosts::Hosts;
use crate::view::View;
use crate::watch::Watch;

/// Connections at once. One more takes the place of the one that has been there longest.
pub const CLIENTS_MAX: usize = 16;

/// Time from message to message.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a client may take for its request, for the page, and for each message.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a run waits for clients to take the last message.
const FAREWELL: Duration = Duration::from_millis(500);

/// Time until the next try where a connection cannot be accepted: no file descriptor is left.
const NAP: Duration = Duration::from_millis(20);

/// The most bytes of a request's head, and of an answer that waits for a slow client.
const BUFFER_BYTES: usize = 64 << 10;

/// Messages that wait for a slow client; it misses those that come meanwhile.
const MESSAGES: usize = 4;

const PAGE: &str = include_str!("page.html");

/// What the page may do: run its own script and style, by their hashes, and ask this server. Made with the page.
const POLICY: &str = include_str!("page.csp");

/// A server of `GET /`, the page, and `GET /events`, what it shows. Lives as long as it is held. When it is dropped all
/// clients are told that the run has ended.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Answers all clients that connect to `listener` and ask for one of `hosts`.
    ///
    /// # Errors
    /// What the system says where there is no thread for it, or no descriptor.
    pub fn on(
        listener: std::net::TcpListener,
        telemetry: Arc<Telemetry>,
        hosts: Hosts,
    ) -> io::Result<Dashboard> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || runtime.block_on(serve(listener, &telemetry, hosts, stopped));
        let thread = thread::Builder::new().name("web".to_owned()).spawn(serve)?;
        Ok(Dashboard { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: TcpListener,
    telemetry: &Arc<Telemetry>,
    hosts: Hosts,
    stopped: oneshot::Receiver<()>,
) {
    let hall = Arc::new(Hall { hosts, streams: Mutex::default() });
    let mut watch = Watch::default();
    let mut clients = VecDeque::new();
    let mut ticks = time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = pin!(stopped);
    // Cores are asked what rules decided, and may be slow to answer: in a thread of its own, and while somebody looks.
    let mut asked: Option<task::JoinHandle<Vec<RuleSnapshot>>> = None;
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            _ = ticks.tick() => {
                let snapshot = telemetry.snapshot();
                if let Some(answer) = asked.take_if(|asked| asked.is_finished()) {
                    watch.look_at_rules(snapshot.elapsed, answer.await.unwrap_or_default());
                }
                if asked.is_none() && hall.is_watched() {
                    let telemetry = Arc::clone(telemetry);
                    asked = Some(task::spawn_blocking(move || telemetry.rules()));
                }
                hall.tell(&watch.look(snapshot), &watch);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => admit(&mut clients, stream, &hall),
                Err(_) => time::sleep(NAP).await,
            },
        }
    }
    drop(listener);
    let last = View { has_ended: true, ..watch.look(telemetry.snapshot()) };
    hall.tell(&last, &watch);
    // Streams end behind their last message.
    hall.streams().open.clear();
    let end = Instant::now() + FAREWELL;
    for client in clients {
        let _ = time::timeout_at(end, client).await;
    }
}

/// Serves a client; where there are too many, the one that has been there longest is disconnected, so that nobody can keep
/// others out by staying.
fn admit(clients: &mut VecDeque<task::JoinHandle<()>>, stream: TcpStream, hall: &Arc<Hall>) {
    clients.retain(|client| !client.is_finished());
    if clients.len() >= CLIENTS_MAX
        && let Some(longest) = clients.pop_front()
    {
        longest.abort();
    }
    clients.push_back(task::spawn(client(stream, Arc::clone(hall))));
}

async fn client(stream: TcpStream, hall: Arc<Hall>) {
    let lease = Lease::new();
    let of_stream = lease.clone();
    let service = service_fn(move |request| {
        let answer = hall.answer(&request, &of_stream);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            // A client that left, or spoke no HTTP: either way it is gone.
            _ = &mut connection => return,
            () = time::sleep_until(lease.end()) => {
                if lease.end() <= Instant::now() {
                    return;
                }
            }
        }
    }
}

/// Until when a client is served: [`PATIENCE`] from the last message that it took.
#[derive(Clone, Debug)]
struct Lease(Arc<Mutex<Instant>>);

impl Lease {
    fn new() -> Lease {
        Lease(Arc::new(Mutex::new(Instant::now() + PATIENCE)))
    }

    fn renew(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + PATIENCE;
    }

    fn end(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all clients share.
#[derive(Debug)]
struct Hall {
    hosts: Hosts,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    /// What a new client is told first; nothing before the first look, and at the end.
    first: Option<View>,
    open: Vec<mpsc::Sender<Bytes>>,
}

impl Hall {
    /// No thread panics while it has them.
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anyone listens.
    fn is_watched(&self) -> bool {
        !self.streams().open.is_empty()
    }

    /// Tells all clients. One that is behind misses it; one that has left is forgotten.
    fn tell(&self, view: &View, watch: &Watch) {
        let mut streams = self.streams();
        let message = message(view);
        // All the points are written out for a client that asks, and not each second.
        let points = || View { points: watch.points(), ..view.clone() };
        streams.first = (!view.has_ended).then(points);
        streams.open.retain(|client| {
            !matches!(client.try_send(message.clone()), Err(mpsc::error::TrySendError::Closed(_)))
        });
    }

    fn answer(&self, request: &Request<Incoming>, lease: &Lease) -> Response<Content> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let mut response = match (host, request.method(), request.uri().path()) {
            (None, _, _) => text(StatusCode::BAD_REQUEST, "a request says for which host it is\n"),
            (Some(host), _, _) if !self.hosts.allow(host) => text(
                StatusCode::MISDIRECTED_REQUEST,
                "this page answers to an address, to localhost, and to the name that the run was given with --web\n",
            ),
            (_, &(Method::GET | Method::HEAD), "/") => {
                whole(StatusCode::OK, "text/html; charset=utf-8", PAGE)
            }
            (_, &Method::GET, "/events") => self.stream(lease),
            (_, _, "/" | "/events") => {
                let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                response
            }
            _ => text(StatusCode::NOT_FOUND, "the page is /\n"),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY.trim_ascii_end()));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        response
    }

    fn stream(&self, lease: &Lease) -> Response<Content> {
        let (sender, messages) = mpsc::channel(MESSAGES);
        let mut streams = self.streams();
        if let Some(first) = &streams.first {
            let _ = sender.try_send(message(first));
        }
        streams.open.push(sender);
        let content = Content::Stream { messages, lease: lease.clone() };
        response(StatusCode::OK, "text/event-stream", content)
    }
}

/// A server-sent event.
fn message(view: &View) -> Bytes {
    // Plain data: it always is JSON.
    let json = serde_json::to_string(view).unwrap_or_default();
    Bytes::from(format!("data: {json}\n\n"))
}

fn text(status: StatusCode, text: &'static str) -> Response<Content> {
    whole(status, "text/plain; charset=utf-8", text)
}

fn whole(status: StatusCode, content_type: &'static str, body: &'static str) -> Response<Content> {
    response(status, content_type, Content::Whole(Some(Bytes::from_static(body.as_bytes()))))
}

fn response(status: StatusCode, content_type: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The body of an answer.
#[derive(Debug)]
enum Content {
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
