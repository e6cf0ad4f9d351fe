//! The server of the page: hyper on one thread.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use telemetry::{RuleSnapshot, Telemetry};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task;
use tokio::time::{self, Instant, MissedTickBehavior};

use crate::content::Lease;
use crate::hall::Hall;
use crate::hosts::Hosts;
use crate::inspect::Inspect;
use crate::token::Token;
use crate::view::View;
use crate::watch::Watch;

/// Connections at once. One more takes the place of the one that has been there longest.
pub const CLIENTS_MAX: usize = 16;

/// Time from message to message.
const PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a run waits for clients to take the last message.
const FAREWELL: Duration = Duration::from_millis(500);

/// Time until the next try where a connection cannot be accepted: no file descriptor is left.
const NAP: Duration = Duration::from_millis(20);

/// The most bytes of a request's head, and of an answer that waits for a slow client.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a client may take for a request's head.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of `GET /`, the page, `GET /events`, what it shows, and what it asks the run for. Lives as long as it is held. When it
/// is dropped all clients are told that the run has ended.
#[derive(Debug)]
pub struct Dashboard {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Answers all clients that connect to `listener` and ask for one of `hosts`. What the page asks of the run goes to `inspect`;
    /// without it the page shows counters alone. A client that shows `token` may change the run; without it none may.
    ///
    /// # Errors
    /// What the system says where there is no thread for it, or no descriptor.
    pub fn on(
        listener: std::net::TcpListener,
        telemetry: Arc<Telemetry>,
        hosts: Hosts,
        (inspect, token): (Option<Arc<dyn Inspect>>, Option<Token>),
    ) -> io::Result<Dashboard> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let hall = Arc::new(Hall::new(hosts, Arc::clone(&telemetry), (inspect, token)));
        let serve = move || {
            runtime.block_on(serve(listener, &telemetry, &hall, stopped));
            hall.join();
        };
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
    hall: &Arc<Hall>,
    stopped: oneshot::Receiver<()>,
) {
    let mut watch = Watch::default();
    let mut clients = VecDeque::new();
    let mut ticks = time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = pin!(stopped);
    // Cores are asked what rules decided, and may be slow to answer: in a thread of its own, and while a browser listens.
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
                let view = View { offers: hall.offers(), ..watch.look(snapshot) };
                hall.tell(&view, &watch);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => admit(&mut clients, stream, hall),
                Err(_) => time::sleep(NAP).await,
            },
        }
    }
    drop(listener);
    let last = View { has_ended: true, offers: hall.offers(), ..watch.look(telemetry.snapshot()) };
    hall.tell(&last, &watch);
    hall.close();
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
        let (hall, lease) = (Arc::clone(&hall), of_stream.clone());
        async move { Ok::<_, Infallible>(hall.answer(request, &lease).await) }
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
