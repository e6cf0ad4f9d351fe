//! The server, as browsers, strangers and floods meet it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use paceline_dashboard::CLIENTS_MAX;
use serde_json::Value;

use super::made_up::{Messages, Run, ask, connect};

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

#[test]
fn the_page_comes_whole_with_a_policy_that_lets_it_run_alone() {
    let dashboard = Run::new().dashboard();
    let (head, body) = ask(dashboard.address(), &get("/", "127.0.0.1"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(body.starts_with("<!DOCTYPE html>") && body.trim_end().ends_with("</html>"));
    let head = head.to_ascii_lowercase();
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "frame-ancestors 'none'",
        "cross-origin-resource-policy: same-origin",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(!head.contains("access-control-"), "no other page may read this one: {head}");
    // One file that needs no other.
    assert!(!body.contains("src=\"") && !body.contains("href=\"http") && !body.contains("@import"));
}

#[test]
fn what_is_not_there_and_who_is_not_meant_is_refused() {
    let dashboard = Run::new().dashboard();
    let cases = [
        (get("/", "evil.example"), "421 "),
        (get("/events", "evil.example"), "421 "),
        (get("/events", "localhost.evil.example:80"), "421 "),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), "400 "),
        (get("/metrics", "localhost"), "404 "),
        (get("/../etc/passwd", "localhost"), "404 "),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_owned(), "405 "),
        (
            "OPTIONS /events HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a.example\r\n\r\n".to_owned(),
            "403 ",
        ),
        ("\u{1}\u{2}\r\n\r\n".to_owned(), "400 "),
    ];
    for (request, status) in cases {
        let (head, _) = ask(dashboard.address(), &request);
        assert!(
            head.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(status)),
            "{request:?}: {head}"
        );
        assert!(!head.to_ascii_lowercase().contains("access-control-"), "{head}");
    }
}

#[test]
fn messages_come_each_second_and_the_last_one_says_so() {
    let mut run = Run::new();
    let dashboard = run.dashboard();
    let mut messages = Messages::listen(dashboard.address());
    let first = messages.next().expect("a message");
    assert!(first.contains("\"chain\":\"edge\"") && first.contains("\"has_ended\":false"), "{first}");
    run.step();
    let second = messages.next().expect("another message");
    assert!(second.contains("\"packets\":240000"), "{second}");
    assert!(second.contains("% is dropped, most of it for table-full by nat."), "{second}");
    run.step();
    drop(dashboard);
    let mut last = String::new();
    while let Some(message) = messages.next() {
        last = message;
    }
    assert!(last.contains("\"has_ended\":true") && last.contains("\"packets\":360000"), "{last}");
}

/// Cores are not asked for what nobody sees.
#[test]
fn rules_are_asked_for_while_somebody_looks() {
    let run = Run::new();
    let dashboard = run.dashboard();
    ask(dashboard.address(), &get("/", "localhost"));
    assert_eq!(run.rules_asked(), 0, "the page alone is no look at the run");
    let mut messages = Messages::listen(dashboard.address());
    let with_rules =
        std::iter::from_fn(|| messages.next()).find(|message| message.contains("\"rule\":\"1\""));
    let message = with_rules.expect("a message with rules");
    assert!(message.contains("\"left_out\":10"), "{message}");
    assert!(run.rules_asked() > 0);
}

#[test]
fn flows_are_looked_for_while_somebody_wants_to_see_them() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let looks = || run.asked.looks.load(Ordering::Relaxed);
    assert!(
        Messages::listen(dashboard.address())
            .next()
            .is_some_and(|view| view.contains("\"offers\":[\"flows\"]"))
    );
    assert_eq!(looks(), 0, "nobody wants flows");
    let mut messages = Messages::of(dashboard.address(), "/flows");
    let first: Value = serde_json::from_str(&messages.next().expect("a look")).expect("JSON");
    assert_eq!((&first["seen"], &first["has_rates"]), (&300.into(), &false.into()), "{first:#}");
    let second: Value = serde_json::from_str(&messages.next().expect("another")).expect("JSON");
    let flows = second["flows"].as_array().expect("flows");
    assert_eq!(flows.len(), 40, "the first by packets and the first by bytes");
    assert!(flows[0]["packets_per_s"].as_f64() > flows[1]["packets_per_s"].as_f64(), "{second:#}");
    assert!(second["core_percent"].as_f64() <= Some(1.0), "{second:#}");
    // Many who want flows are one who asks.
    let others: Vec<Messages> =
        (0..CLIENTS_MAX - 1).map(|_| Messages::of(dashboard.address(), "/flows")).collect();
    let before = looks();
    assert!(messages.next().is_some() && messages.next().is_some());
    assert!(looks() - before <= 4, "{} looks while two were told", looks() - before);
    drop((messages, others));
    // The thread that looks ends; the next who wants some starts another.
    let mut again = Messages::of(dashboard.address(), "/flows");
    assert!(again.next().is_some());
    drop(dashboard);
    assert!(again.next().is_none(), "the stream ends with the run");
    let plain = run.plain_dashboard();
    assert!(Messages::listen(plain.address()).next().is_some_and(|view| view.contains("\"offers\":[]")));
    assert!(ask(plain.address(), &get("/flows", "localhost")).0.starts_with("HTTP/1.1 404 "));
}

/// A browser says of which site the page is that asks; other programs say nothing.
#[test]
fn pages_of_other_sites_start_nothing() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let with = |path: &str, header: &str| {
        let (head, _) = ask(
            dashboard.address(),
            &format!("GET {path} HTTP/1.1\r\nHost: localhost:80\r\n{header}\r\n\r\n"),
        );
        head.lines().next().unwrap_or_default().to_owned()
    };
    for header in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: http://evil.example",
        "Origin: http://localhost:81",
        "Origin: null",
    ] {
        for path in ["/events", "/flows"] {
            assert_eq!(with(path, header), "HTTP/1.1 403 Forbidden", "{header}");
        }
    }
    assert_eq!(run.asked.looks.load(Ordering::Relaxed), 0);
    assert_eq!(
        with("/", "Sec-Fetch-Site: cross-site"),
        "HTTP/1.1 200 OK",
        "a link to the page is none of that"
    );
    let own = connect(
        dashboard.address(),
        "GET /events HTTP/1.1\r\nHost: localhost:80\r\nOrigin: http://localhost:80\r\nSec-Fetch-Site: same-origin\r\n\r\n",
    );
    let mut head = [0; 15];
    (&own).read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200 OK");
}

/// Anyone who reaches the port can fill all places, by saying nothing, or by asking and never reading. A client that comes
/// then is answered all the same, and the run ends at once.
#[test]
fn a_flood_of_silent_and_slow_clients_keeps_nobody_out() {
    let dashboard = Run::new().dashboard();
    let address = dashboard.address();
    let silent: Vec<TcpStream> = (0..CLIENTS_MAX).map(|_| connect(address, "")).collect();
    let deaf: Vec<TcpStream> =
        (0..4 * CLIENTS_MAX).map(|_| connect(address, &get("/events", "localhost"))).collect();
    let (head, _) = ask(address, &get("/", "localhost"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(Messages::listen(address).next().is_some());
    // Those that lost their places are disconnected.
    for mut client in silent {
        // Sooner than any that may say nothing for ten seconds.
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("a bounded wait");
        let read = client.read(&mut [0; 16]);
        assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it still has a place");
    }
    let begin = Instant::now();
    drop(dashboard);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    drop(deaf);
}

#[test]
fn a_head_without_an_end_is_refused() {
    let dashboard = Run::new().dashboard();
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(200 << 10));
    let mut stream = TcpStream::connect(dashboard.address()).expect("a connection");
    // The server may close in the middle of it.
    let _ = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}
