//! How backends answer checks, and what is held of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use engine::Chain;
use nf::{Backend, Check, HttpCheck};
use toml::Table;

use super::chain_file::{all, table_of};

/// How many backends are asked at a time.
const AT_ONCE: usize = 64;
/// The most bytes of an answer that are read: its first line is in them.
const ANSWER_MAX: usize = 4_096;

/// What checks have found so far.
#[derive(Debug, Default)]
pub struct Health {
    found: Mutex<Found>,
    /// Told where another chain has taken over, or the run is over.
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) checks: BTreeMap<Check, Checked>,
    /// Whether another chain has taken over, whose checks may be others.
    pub(super) is_stale: bool,
    pub(super) is_over: bool,
}

/// One check, and what came of it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) due: Instant,
    is_failed: bool,
    /// How many in a row said that it is not as it is held to be.
    against: u32,
    /// Why the last one was bad, if it was.
    why: Option<String>,
}

impl Checked {
    /// Takes in what a check says; says whether it changes what the backend is held to be.
    fn hear(&mut self, check: &Check, said: Result<(), String>) -> bool {
        self.why = said.err();
        if self.why.is_some() == self.is_failed {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let is_enough = self.against >= if self.is_failed { check.rise } else { check.fall };
        if is_enough {
            (self.is_failed, self.against) = (!self.is_failed, 0);
        }
        is_enough
    }
}

impl Health {
    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another chain has taken over.
    pub(super) fn chain_changed(&self) {
        self.found().is_stale = true;
        self.changed.notify_all();
    }

    /// Why the last check of it was a bad one.
    pub(super) fn why_bad(&self, check: &Check) -> Option<String> {
        self.found().checks.get(check)?.why.clone()
    }

    /// Backends of a chain of which checks found something else than it says, each with the place of its function.
    pub(super) fn news(&self, chain: &Chain) -> Vec<(usize, Backend)> {
        let found = self.found();
        let is_news = |(_, backend): &(usize, Backend)| {
            let checked = backend.check.as_ref().and_then(|check| found.checks.get(check));
            checked.is_some_and(|checked| checked.is_failed != backend.is_failed)
        };
        all(chain).filter(is_news).collect()
    }

    /// Takes up the checks of a chain, and forgets those that it does not have.
    pub(super) fn take_up(&self, chain: &Chain) {
        let wanted: BTreeMap<Check, bool> =
            all(chain).filter_map(|(_, backend)| Some((backend.check?, backend.is_failed))).collect();
        let mut found = self.found();
        found.checks.retain(|check, _| wanted.contains_key(check));
        for (check, is_failed) in wanted {
            let begun = || Checked { due: Instant::now(), is_failed, against: 0, why: None };
            found.checks.entry(check).or_insert_with(begun);
        }
    }

    /// Does the checks that are due, and says whether one of them changed what its backend is held to be.
    pub(super) fn check(&self) -> bool {
        let now = Instant::now();
        let is_due = |(check, checked): (&Check, &Checked)| (checked.due <= now).then(|| check.clone());
        let due: Vec<Check> = self.found().checks.iter().filter_map(is_due).collect();
        let mut is_changed = false;
        for (check, said) in due.iter().zip(ask_all(&due)) {
            let mut found = self.found();
            let Some(checked) = found.checks.get_mut(check) else { continue };
            checked.due = now + check.interval;
            if checked.hear(check, said) {
                is_changed = true;
                // Where standard error is closed nobody reads this.
                let _ = writeln!(std::io::stderr(), "{}", told(check, checked));
            }
        }
        is_changed
    }
}

/// A backend is held to be something else.
fn told(check: &Check, checked: &Checked) -> String {
    match (&checked.why, checked.is_failed) {
        (Some(why), true) => format!("backend {} has failed {} checks in a row: {why}", check.at, check.fall),
        _ => format!("backend {} is good again: {} checks in a row say so", check.at, check.rise),
    }
}

/// Writes into a chain file that these backends are not as it says; says whether there are any.
pub(super) fn write_news(table: &mut Table, news: &[(usize, Backend)]) -> bool {
    for (function, backend) in news {
        let health = if backend.is_failed { "good" } else { "failed" };
        if let Some(own) = table_of(table, *function, backend) {
            own.insert("health".to_owned(), health.into());
        }
    }
    !news.is_empty()
}

/// Asks all of them, many at a time; what each says, in their order.
fn ask_all(due: &[Check]) -> Vec<Result<(), String>> {
    let (next, said) = (AtomicUsize::new(0), Mutex::new(vec![Ok(()); due.len()]));
    let work = || {
        while let Some((at, check)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, due.get(at)?)))
        {
            let answer = ask(check);
            said.lock().unwrap_or_else(PoisonError::into_inner)[at] = answer;
        }
    };
    thread::scope(|scope| {
        for _ in 1..due.len().min(AT_ONCE) {
            // Where there can be no more threads it takes longer.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    said.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// One check, within its time.
fn ask(check: &Check) -> Result<(), String> {
    let begin = Instant::now();
    let late = || format!("no answer within {} ms", check.timeout.as_millis());
    let left = || check.timeout.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()).ok_or_else(late);
    let wrong = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => late(),
        _ => error.to_string(),
    };
    let mut stream = TcpStream::connect_timeout(&check.at, check.timeout).map_err(wrong)?;
    let Some(http) = &check.http else { return Ok(()) };
    stream.set_write_timeout(Some(left()?)).map_err(wrong)?;
    stream.write_all(request(check, http).as_bytes()).map_err(wrong)?;
    let (mut answer, mut bytes) = (Vec::new(), [0; 512]);
    while !answer.contains(&b'\n') && answer.len() < ANSWER_MAX {
        stream.set_read_timeout(Some(left()?)).map_err(wrong)?;
        match stream.read(&mut bytes).map_err(wrong)? {
            0 => break,
            length => answer.extend(&bytes[..length]),
        }
    }
    status(&answer)
}

/// RFC 9112 §3.
fn request(check: &Check, HttpCheck { host, path }: &HttpCheck) -> String {
    let host = if host.is_empty() { check.at.to_string() } else { host.clone() };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: paceline\r\nConnection: close\r\n\r\n")
}

/// Whether the answer begins with a status line (RFC 9112 §4) of a status from 200 to 399.
fn status(answer: &[u8]) -> Result<(), String> {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let status = line
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(1..5))
        .and_then(|rest| rest.strip_prefix(b" "));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    match status {
        Some(200..400) => Ok(()),
        Some(status) => Err(format!("HTTP status {status}")),
        None => Err("it does not answer as HTTP does".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    use super::*;

    fn check_of(at: SocketAddr, path: Option<&str>) -> Check {
        let http = path.map(|path| HttpCheck { host: String::new(), path: path.to_owned() });
        let (interval, timeout) = (Duration::from_secs(1), Duration::from_millis(300));
        Check { at, http, interval, timeout, rise: 2, fall: 3 }
    }

    #[test]
    fn so_many_in_a_row_change_what_a_backend_is_held_to_be() {
        let check = check_of(SocketAddr::from(([192, 0, 2, 1], 80)), None);
        let mut checked = Checked { due: Instant::now(), is_failed: false, against: 0, why: None };
        let mut hear = |good: bool| {
            let said = if good { Ok(()) } else { Err("no".to_owned()) };
            (checked.hear(&check, said), checked.is_failed)
        };
        // Two bad ones, a good one between, are not three in a row.
        let told = [false, false, true, false, false, false, false, true, false, true, true].map(&mut hear);
        let expected = [
            (false, false),
            (false, false),
            (false, false),
            (false, false),
            (false, false),
            (true, true),
            (false, true),
            (false, true),
            (false, true),
            (false, true),
            (true, false),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_status_line_is_read_and_nothing_else_is_one() {
        for (answer, expected) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Ok(())),
            (b"HTTP/1.0 301 Moved\r\nLocation: /\r\n", Ok(())),
            (b"HTTP/1.1 399 \r\n", Ok(())),
            (b"HTTP/1.1 200", Ok(())),
            (b"HTTP/1.1 503 Busy\r\n", Err("HTTP status 503")),
            (b"HTTP/1.1 199 \r\n", Err("HTTP status 199")),
            (b"HTTP/1.1 20 \r\n", Err("it does not answer as HTTP does")),
            (b"HTTP/1.1200 OK\r\n", Err("it does not answer as HTTP does")),
            (b"HTTP/2 200\r\n", Err("it does not answer as HTTP does")),
            (b"SSH-2.0-OpenSSH\r\nHTTP/1.1 200 OK\r\n", Err("it does not answer as HTTP does")),
            (b"", Err("it does not answer as HTTP does")),
            (b"\xff\xfe", Err("it does not answer as HTTP does")),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(status(answer), expected, "{}", String::from_utf8_lossy(answer));
        }
    }

    /// Servers on the loopback interface: one that answers, one that says nothing, one that sends without an end, and a port where
    /// nobody listens. A check of one that says nothing does not hold up the others: it takes its own time.
    #[test]
    fn servers_are_asked_and_none_holds_a_check_up() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("the loopback interface");
        let (answers, silent, endless, gone) = (listen(), listen(), listen(), listen());
        let at = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        let checks = [
            check_of(at(&answers), Some("/health")),
            check_of(at(&silent), Some("/health")),
            check_of(at(&endless), Some("/health")),
            check_of(at(&gone), None),
            check_of(at(&silent), None),
        ];
        drop(gone);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = answers.accept().expect("a check");
                let (mut asked, mut bytes) = (Vec::new(), [0; 512]);
                while !asked.ends_with(b"\r\n\r\n") {
                    let length = stream.read(&mut bytes).expect("a request");
                    asked.extend(&bytes[..length]);
                }
                let asked = String::from_utf8(asked).expect("text");
                assert!(asked.starts_with("GET /health HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked}");
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is read");
            });
            scope.spawn(|| {
                let (mut stream, _) = endless.accept().expect("a check");
                // Until the check has gone.
                while stream.write_all(&[b'x'; 512]).is_ok() {}
            });
            let said = ask_all(&checks);
            assert_eq!(said[0], Ok(()));
            assert_eq!(said[1], Err("no answer within 300 ms".to_owned()));
            assert_eq!(said[2], Err("it does not answer as HTTP does".to_owned()));
            assert!(said[3].as_ref().is_err_and(|why| why.contains("refused")), "{:?}", said[3]);
            assert_eq!(said[4], Ok(()));
        });
    }
}
