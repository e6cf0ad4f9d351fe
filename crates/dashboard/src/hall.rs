//! What all clients share: who may ask, what is answered, and who listens.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::{BodyExt, Collected, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    ORIGIN, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use telemetry::Telemetry;
use tokio::sync::mpsc;
use tokio::{task, time};

use crate::content::{Content, Lease, events, lines, message, text, whole};
use crate::flows;
use crate::hosts::Hosts;
use crate::inspect::{Inspect, TraceFilter};
use crate::token::Token;
use crate::traces::{self, Traces};
use crate::view::{FlowsView, View};
use crate::watch::Watch;

/// Messages that wait for a slow client; it misses those that come meanwhile.
const MESSAGES: usize = 4;

/// The most bytes of a filter.
const FILTER_BYTES: usize = 4 << 10;

/// The most bytes of a chain file, as with `paceline ctl reload`.
const CHAIN_BYTES: usize = 64 << 20;

/// How often a client that waits for a reload is given more time.
const PULSE: Duration = Duration::from_secs(1);

const PAGE: &str = include_str!("page.html");

/// What the page may do: run its own script and style, by their hashes, and ask this server. Made with the page.
const POLICY: &str = include_str!("page.csp");

/// What all clients share.
pub(crate) struct Hall {
    hosts: Hosts,
    telemetry: Arc<Telemetry>,
    /// Whom questions of the page go to; `None` where it shows counters alone.
    inspect: Option<Arc<dyn Inspect>>,
    streams: Mutex<Streams>,
    flows: Mutex<FlowStreams>,
    traces: Traces,
    /// What a request has to show that changes something; `None` where nothing is changed.
    token: Option<Token>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Streams {
    /// What a new client is told first; nothing before the first look, and at the end.
    first: Option<View>,
    open: Vec<mpsc::Sender<Bytes>>,
}

/// Who wants to see flows, and the thread that looks for them.
#[derive(Debug, Default)]
struct FlowStreams {
    open: Vec<mpsc::Sender<Bytes>>,
    is_followed: bool,
    thread: Option<JoinHandle<()>>,
}

impl Hall {
    pub(crate) fn new(
        hosts: Hosts,
        telemetry: Arc<Telemetry>,
        (inspect, token): (Option<Arc<dyn Inspect>>, Option<Token>),
    ) -> Hall {
        let (streams, flows, traces) = Default::default();
        Hall { hosts, telemetry, inspect, streams, flows, traces, token, is_over: AtomicBool::new(false) }
    }

    /// Whether anyone listens to what the page shows.
    pub(crate) fn is_watched(&self) -> bool {
        !lock(&self.streams).open.is_empty()
    }

    /// What the page can ask for.
    pub(crate) fn offers(&self) -> Vec<String> {
        let Some(_) = &self.inspect else { return Vec::new() };
        let reload = self.token.iter().map(|_| "reload");
        ["flows", "trace"].into_iter().chain(reload).map(str::to_owned).collect()
    }

    /// Tells all clients. One that is behind misses it; one that has left is forgotten.
    pub(crate) fn tell(&self, view: &View, watch: &Watch) {
        let mut streams = lock(&self.streams);
        // All the points are written out for a client that asks, and not each second.
        let points = || View { points: watch.points(), ..view.clone() };
        streams.first = (!view.has_ended).then(points);
        tell(&mut streams.open, &message(view));
        // A look at flows may take longer than a client is waited for: a comment says that it goes on.
        tell(&mut lock(&self.flows).open, &Bytes::from_static(b":\n\n"));
    }

    /// Has all streams end behind their last message.
    pub(crate) fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        lock(&self.streams).open.clear();
        lock(&self.flows).open.clear();
    }

    /// Waits for the threads that ask the run. They end soon after it has.
    pub(crate) fn join(&self) {
        let thread = mem::take(&mut lock(&self.flows).thread);
        thread.into_iter().for_each(|thread| drop(thread.join()));
        self.traces.join();
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        lease: &Lease,
    ) -> Response<Content> {
        let headers = request.headers();
        let mut response = match (request.method(), request.uri().path()) {
            _ if let Some(refusal) = self.refusal(headers) => refusal,
            (&(Method::GET | Method::HEAD), "/") => whole(StatusCode::OK, "text/html; charset=utf-8", PAGE),
            (_, "/events" | "/flows" | "/trace" | "/reload") if is_from_elsewhere(headers) => {
                text(StatusCode::FORBIDDEN, "another page asks, which is none of its business\n")
            }
            (&Method::GET, "/events") => self.stream(lease),
            (&Method::GET, "/flows") => self.stream_flows(lease),
            (&Method::POST, "/trace") => self.trace(request, lease).await,
            (&Method::POST, "/reload") => self.reload(request, lease).await,
            (_, "/" | "/events" | "/flows") => not_allowed("GET"),
            (_, "/trace" | "/reload") => not_allowed("POST"),
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

    /// The answer to a request for another host than this one.
    fn refusal(&self, headers: &HeaderMap) -> Option<Response<Content>> {
        match headers.get(HOST).and_then(|host| host.to_str().ok()) {
            None => Some(text(StatusCode::BAD_REQUEST, "a request says for which host it is\n")),
            Some(host) if self.hosts.allow(host) => None,
            Some(_) => Some(text(
                StatusCode::MISDIRECTED_REQUEST,
                "this page answers to an address, to localhost, and to the name that the run was given with --web\n",
            )),
        }
    }

    fn stream(&self, lease: &Lease) -> Response<Content> {
        let (sender, messages) = mpsc::channel(MESSAGES);
        let mut streams = lock(&self.streams);
        if let Some(first) = &streams.first {
            let _ = sender.try_send(message(first));
        }
        streams.open.push(sender);
        events(messages, lease)
    }

    /// The flows with the highest rates, for which the run is asked as long as anyone listens.
    fn stream_flows(self: &Arc<Self>, lease: &Lease) -> Response<Content> {
        let Some(inspect) = &self.inspect else {
            return text(StatusCode::NOT_FOUND, "this page shows no flows\n");
        };
        let (sender, messages) = mpsc::channel(MESSAGES);
        let mut flows = lock(&self.flows);
        if self.is_over() {
            return text(StatusCode::NOT_FOUND, "the run is over\n");
        }
        flows.open.push(sender);
        if !flows.is_followed {
            let (hall, inspect) = (Arc::clone(self), Arc::clone(inspect));
            let follow = move || {
                let seconds = || hall.telemetry.elapsed().as_secs_f64();
                let is_wanted = || hall.are_flows_wanted();
                flows::follow(&*inspect, &seconds, &is_wanted, &mut |view| hall.tell_flows(&view));
            };
            match thread::Builder::new().name("web-flows".to_owned()).spawn(follow) {
                Ok(thread) => (flows.is_followed, flows.thread) = (true, Some(thread)),
                Err(_) => {
                    flows.open.clear();
                    return text(StatusCode::SERVICE_UNAVAILABLE, "the system has no thread for it now\n");
                }
            }
        }
        events(messages, lease)
    }

    /// The way of a few packets, in lines.
    async fn trace(self: &Arc<Self>, request: Request<Incoming>, lease: &Lease) -> Response<Content> {
        let Some(inspect) = self.inspect.clone() else {
            return text(StatusCode::NOT_FOUND, "this page traces no packets\n");
        };
        let body = match body(request, "application/json", FILTER_BYTES).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let filter: TraceFilter = match serde_json::from_slice(&body) {
            Ok(filter) => filter,
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("this is no filter: {error}\n")),
        };
        let (sender, messages) = mpsc::channel(traces::LINES);
        let hall = Arc::clone(self);
        let trace = move || {
            let is_over = || hall.is_over();
            traces::trace(&*inspect, &filter, &sender, &is_over);
            drop(sender);
            traces::pause(&is_over);
        };
        match self.traces.begin(trace) {
            Ok(()) => lines(messages, lease),
            Err(why) => text(StatusCode::CONFLICT, why),
        }
    }

    /// Another chain takes over, if the request shows the token. Nothing else of it is read before.
    async fn reload(&self, request: Request<Incoming>, lease: &Lease) -> Response<Content> {
        let (Some(inspect), Some(token)) = (self.inspect.clone(), &self.token) else {
            return text(
                StatusCode::NOT_FOUND,
                "this page changes nothing: start the run with --web-control\n",
            );
        };
        if !request.headers().get(AUTHORIZATION).is_some_and(|shown| token.is_shown(shown.as_bytes())) {
            let mut response = text(
                StatusCode::UNAUTHORIZED,
                "the token is another: it is the one that the run said at its start\n",
            );
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        let body = match body(request, "application/toml", CHAIN_BYTES).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let Ok(chain) = String::from_utf8(body.into()) else {
            return text(StatusCode::BAD_REQUEST, "a chain file is UTF-8\n");
        };
        let mut reload = task::spawn_blocking(move || {
            inspect.reload(Some(&*chain).filter(|chain| !chain.trim().is_empty()))
        });
        let told = loop {
            tokio::select! {
                told = &mut reload => break told,
                () = time::sleep(PULSE) => lease.renew(),
            }
        };
        match told.unwrap_or_else(|_| Err("it broke off: this is a defect".to_owned())) {
            Ok(told) => text(StatusCode::OK, told + "\n"),
            Err(why) => text(StatusCode::UNPROCESSABLE_ENTITY, why + "\n"),
        }
    }

    /// Whether anyone still wants flows. Where nobody does, the thread that asks ends, and the next who wants some starts another.
    fn are_flows_wanted(&self) -> bool {
        let mut flows = lock(&self.flows);
        flows.open.retain(|client| !client.is_closed());
        flows.is_followed = !flows.open.is_empty();
        flows.is_followed
    }

    fn tell_flows(&self, view: &FlowsView) {
        tell(&mut lock(&self.flows).open, &message(view));
    }
}

/// Gives a message to each client that has room for it, and forgets those that left.
fn tell(open: &mut Vec<mpsc::Sender<Bytes>>, message: &Bytes) {
    open.retain(|client| {
        !matches!(client.try_send(message.clone()), Err(mpsc::error::TrySendError::Closed(_)))
    });
}

/// A request's body, if it is of this type and no larger. Pages of other sites cannot send these types without asking first, which
/// is refused.
async fn body(
    request: Request<Incoming>,
    content_type: &str,
    most: usize,
) -> Result<Bytes, Response<Content>> {
    if request.headers().get(CONTENT_TYPE).is_none_or(|given| given != content_type) {
        let why = format!("the request needs `Content-Type: {content_type}`\n");
        return Err(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let read = Limited::new(request.into_body(), most).collect().await;
    read.map(Collected::to_bytes)
        .map_err(|_| text(StatusCode::PAYLOAD_TOO_LARGE, format!("it has {most} bytes at most\n")))
}

/// Whether a browser says that a page of another site asks. Other programs say nothing of it.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let host = headers.get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
    // By https where something else answers in front of the run.
    let is_own = |origin: &HeaderValue| {
        [&b"http://"[..], b"https://"]
            .iter()
            .any(|scheme| origin.as_bytes().strip_prefix(*scheme) == Some(host))
    };
    site || headers.get(ORIGIN).is_some_and(|origin| !is_own(origin))
}

fn not_allowed(method: &'static str) -> Response<Content> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("only {method} is answered\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(method));
    response
}

/// No thread panics while it holds one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
