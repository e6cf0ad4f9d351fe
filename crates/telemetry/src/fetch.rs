//! Fetches metrics from a run.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;

/// The most bytes of an answer: a hundred cores and functions have a few hundred KiB.
const ANSWER_BYTES: usize = 64 << 20;

/// Why metrics could not be fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// Nobody listens there, or not to the end.
    #[error("nobody answers at {address}: {cause}")]
    Gone {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// A server is there and takes too long.
    #[error("no answer from {address} in {} ms", patience.as_millis())]
    Late {
        /// Where.
        address: SocketAddr,
        /// How long was waited.
        patience: Duration,
    },
    /// A server answers something else.
    #[error("{address} answers, but not with metrics: {what}")]
    Other {
        /// Where.
        address: SocketAddr,
        /// What it says instead.
        what: String,
    },
}

/// Asks a [`MetricsServer`](crate::MetricsServer) for its text, and waits for no longer than `patience`.
///
/// # Errors
/// [`FetchError`] says whether no server is there, or another one.
pub fn fetch(address: SocketAddr, patience: Duration) -> Result<String, FetchError> {
    let answer = ask(address, patience).map_err(|cause| match cause.kind() {
        // A read that takes too long is either, by system.
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => FetchError::Late { address, patience },
        _ => FetchError::Gone { address, cause },
    })?;
    body(&answer).map_err(|fault| match fault {
        Fault::CutShort => FetchError::Gone { address, cause: io::ErrorKind::UnexpectedEof.into() },
        Fault::Other(what) => FetchError::Other { address, what },
    })
}

/// The whole answer, head and body.
fn ask(address: SocketAddr, patience: Duration) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_write_timeout(Some(patience))?;
    // As version 1.0, so that the answer comes in one piece and ends with the connection.
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(answer),
            read => answer.extend_from_slice(&piece[..read]),
        }
        if answer.len() > ANSWER_BYTES {
            return Err(io::Error::other("the answer does not end"));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    CutShort,
    Other(String),
}

/// The body of a whole answer.
fn body(answer: &[u8]) -> Result<String, Fault> {
    if answer.is_empty() {
        return Err(Fault::CutShort);
    }
    let other = |what: &str| Fault::Other(what.to_owned());
    if !answer.starts_with(b"HTTP/1.") {
        return Err(other("this is not HTTP"));
    }
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or(Fault::CutShort)?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = str::from_utf8(head).map_err(|_| other("its head is not text"))?;
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().split_once(' ').map_or("", |(_, status)| status);
    if !status.starts_with("200") {
        return Err(other(status));
    }
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())
    });
    if length.flatten().is_some_and(|length| body.len() < length) {
        return Err(Fault::CutShort);
    }
    String::from_utf8(body.to_vec()).map_err(|_| other("its body is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_answer() {
        let other = |what: &str| Err(Fault::Other(what.to_owned()));
        let cases: [(&[u8], Result<String, Fault>); 8] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n", Ok("a 1\n".to_owned())),
            (b"HTTP/1.0 200 OK\r\n\r\na 1\n", Ok("a 1\n".to_owned())),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\na 1\n", Err(Fault::CutShort)),
            (b"HTTP/1.1 200 OK\r\nContent-", Err(Fault::CutShort)),
            (b"", Err(Fault::CutShort)),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", other("404 Not Found")),
            (b"SSH-2.0-OpenSSH\r\n", other("this is not HTTP")),
            (b"HTTP/1.1 200 OK\r\n\r\n\xff", other("its body is not text")),
        ];
        for (answer, expected) in cases {
            assert_eq!(body(answer), expected, "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn where_nobody_listens_nobody_answers() {
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        assert!(matches!(fetch(address, Duration::from_secs(1)), Err(FetchError::Gone { .. })));
    }

    #[test]
    fn whoever_says_nothing_is_late() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        assert!(matches!(fetch(address, Duration::from_millis(50)), Err(FetchError::Late { .. })));
    }
}
