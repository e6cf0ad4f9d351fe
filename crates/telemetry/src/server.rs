use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Telemetry, prometheus};

/// The most bytes of a request's head.
const REQUEST_BYTES: usize = 8 << 10;

/// How long a client may take for its request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Requests that are answered at once; a client beyond them is turned away.
const CLIENTS_MAX: usize = 8;

/// Time between two looks for a client.
const NAP: Duration = Duration::from_millis(20);

/// How long the end waits for answers that are on their way.
const FAREWELL: Duration = Duration::from_millis(200);

/// An HTTP server of one page, `GET /metrics`: what has been published, as Prometheus' text. Lives as long
/// as it is held. It has threads of its own, reads what the cores publish, and waits for nobody for long;
/// so no client can hold a run up.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    telemetry: Arc<Telemetry>,
    is_over: AtomicBool,
    clients: AtomicUsize,
}

impl MetricsServer {
    /// Listens on `address`; port 0 is any that is free.
    ///
    /// # Errors
    /// What the system says where it cannot be had.
    pub fn start(address: SocketAddr, telemetry: Arc<Telemetry>) -> io::Result<MetricsServer> {
        MetricsServer::on(TcpListener::bind(address)?, telemetry)
    }

    /// Answers whoever connects to `listener`.
    ///
    /// # Errors
    /// What the system says where there is no thread for it.
    pub fn on(listener: TcpListener, telemetry: Arc<Telemetry>) -> io::Result<MetricsServer> {
        // So that the end is noticed without a client.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { telemetry, is_over: AtomicBool::new(false), clients: AtomicUsize::new(0) });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || accept_all(&listener, &accepting))?;
        Ok(MetricsServer { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let end = Instant::now() + FAREWELL;
        while self.shared.clients.load(Ordering::Acquire) > 0 && Instant::now() < end {
            thread::sleep(NAP / 10);
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over.load(Ordering::Relaxed) {
        // A client that left, or no file descriptor to spare: either way there may be another later.
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(NAP);
            continue;
        };
        if shared.clients.load(Ordering::Acquire) >= CLIENTS_MAX {
            continue;
        }
        shared.clients.fetch_add(1, Ordering::AcqRel);
        let serving = Client(Arc::clone(shared));
        // Without a thread the client is dropped, and the count with it.
        let _ = thread::Builder::new().name("metrics-client".to_owned()).spawn(move || {
            let _ = serve(stream, &serving.0.telemetry);
        });
    }
}

/// One of the clients, as long as it is served.
struct Client(Arc<Shared>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(mut stream: TcpStream, telemetry: &Telemetry) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let answer = match read_head(&mut stream)? {
        Some(head) => answer(&head, telemetry),
        None => text("431 Request Header Fields Too Large", "", "the request is too long\n"),
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&answer)?;
    stream.shutdown(Shutdown::Write)?;
    // What was not read would make the system reset the connection, and the answer be lost.
    stream.set_read_timeout(Some(FAREWELL))?;
    let _ = stream.take(REQUEST_BYTES as u64).read_to_end(&mut Vec::new());
    Ok(())
}

/// The request up to its empty line; `None` if that does not come within [`REQUEST_BYTES`].
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now() + PATIENCE;
    let mut head = vec![0; REQUEST_BYTES];
    let mut len = 0;
    while len < head.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut head[len..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        len += read;
        if head[..len].windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            head.truncate(len);
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// The answer to a request's head.
fn answer(head: &[u8], telemetry: &Telemetry) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return text("400 Bad Request", "", "this is not HTTP\n");
    };
    if !version.starts_with(b"HTTP/1.") {
        return text("400 Bad Request", "", "this is not HTTP/1\n");
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (path, method) {
        (b"/metrics", b"GET") => {
            response("200 OK", "", prometheus::CONTENT_TYPE, &prometheus::write(&telemetry.snapshot()))
        }
        (b"/metrics", _) => text("405 Method Not Allowed", "Allow: GET\r\n", "only GET is answered\n"),
        _ => text("404 Not Found", "", "the page is /metrics\n"),
    }
}

fn text(status: &str, headers: &str, body: &str) -> Vec<u8> {
    response(status, headers, "text/plain; charset=utf-8", body)
}

fn response(status: &str, headers: &str, content_type: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\
         {headers}Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests;
