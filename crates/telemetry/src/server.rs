//! The HTTP server of metrics.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Telemetry, prometheus};

/// The most bytes of a request's head.
const REQUEST_BYTES: usize = 8 << 10;

/// How long a client may take for its request and the answer together.
const PATIENCE: Duration = Duration::from_secs(2);

/// Requests that are answered at once; a client beyond them takes the place of the one that has been there longest.
const CLIENTS_MAX: usize = 8;

/// Threads that serve clients, those that lost their place and have not noticed yet included.
const THREADS_MAX: usize = 2 * CLIENTS_MAX;

/// Time between two looks for a client.
const NAP: Duration = Duration::from_millis(20);

/// How long the end waits for answers that are on their way, and a client whose answer is sent for what it still sends.
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
    /// Threads that serve clients.
    threads: AtomicUsize,
    /// Those that have a place, with their numbers, the first to come first.
    clients: Mutex<Vec<(u64, TcpStream)>>,
}

impl Shared {
    /// No thread panics while it has them.
    fn clients(&self) -> MutexGuard<'_, Vec<(u64, TcpStream)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a client a place. Where there is none left, the client that has been there longest is disconnected, so that
    /// slow clients keep nobody out.
    fn admit(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let handle = stream.try_clone()?;
        let mut clients = self.clients();
        if clients.len() >= CLIENTS_MAX {
            let (_, longest) = clients.remove(0);
            let _ = longest.shutdown(Shutdown::Both);
        }
        clients.push((number, handle));
        Ok(())
    }
}

impl MetricsServer {
    /// Listens on `address`; port 0 is any that is free.
    ///
    /// # Errors
    /// What the system says where the address cannot be listened at.
    pub fn start(address: SocketAddr, telemetry: Arc<Telemetry>) -> io::Result<MetricsServer> {
        MetricsServer::on(TcpListener::bind(address)?, telemetry)
    }

    /// Answers all clients that connect to `listener`.
    ///
    /// # Errors
    /// What the system says where there is no thread for it.
    pub fn on(listener: TcpListener, telemetry: Arc<Telemetry>) -> io::Result<MetricsServer> {
        // So that the end is noticed without a client.
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            telemetry,
            is_over: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            clients: Mutex::default(),
        });
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
        while self.shared.threads.load(Ordering::Acquire) > 0 && Instant::now() < end {
            thread::sleep(NAP / 10);
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut number = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        // A client that left, or no file descriptor to spare: either way there may be another later.
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(NAP);
            continue;
        };
        number += 1;
        if shared.threads.load(Ordering::Acquire) >= THREADS_MAX || shared.admit(number, &stream).is_err() {
            continue;
        }
        shared.threads.fetch_add(1, Ordering::AcqRel);
        let client = Client { shared: Arc::clone(shared), number };
        // Without a thread the client is dropped, and its place is free.
        let _ = thread::Builder::new().name("metrics-client".to_owned()).spawn(move || {
            let _ = serve(&stream, &client.shared.telemetry);
        });
    }
}

/// One of the clients, as long as it is served.
struct Client {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.clients().retain(|(number, _)| *number != self.number);
        self.shared.threads.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection whose reads and writes are all over by one time, however little each of them brings.
struct Until<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Until<'_> {
    /// The time that is left.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn serve(stream: &TcpStream, telemetry: &Telemetry) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut until = Until { stream, end: Instant::now() + PATIENCE };
    let answer = match read_head(&mut until)? {
        Some(head) => answer(&head, telemetry),
        None => text("431 Request Header Fields Too Large", "", "the request is too long\n"),
    };
    until.write_all(&answer)?;
    stream.shutdown(Shutdown::Write)?;
    // What was not read would make the system reset the connection, and the answer be lost.
    let until = Until { stream, end: Instant::now() + FAREWELL };
    let _ = until.take(REQUEST_BYTES as u64).read_to_end(&mut Vec::new());
    Ok(())
}

/// The request up to its empty line; `None` if that does not come within [`REQUEST_BYTES`].
fn read_head(stream: &mut Until<'_>) -> io::Result<Option<Vec<u8>>> {
    let mut head = vec![0; REQUEST_BYTES];
    let mut len = 0;
    while len < head.len() {
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
            response("200 OK", "", prometheus::CONTENT_TYPE, &prometheus::write(&telemetry.whole_snapshot()))
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
