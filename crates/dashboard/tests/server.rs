//! The server, as browsers, strangers and floods meet it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use paceline_dashboard::{CLIENTS_MAX, TRACE_PACKETS, TraceFilter};
use serde_json::Value;

use super::made_up::{Messages, Run, TOKEN, ask, connect};

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
            .is_some_and(|view| view.contains("\"offers\":[\"flows\",\"trace\",\"reload\"]"))
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
    // Many clients that want flows are one look.
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
    // The first line alone: what is not refused may go on for ever.
    let with = |path: &str, header: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:80\r\n{header}\r\n\r\n");
        let mut line = String::new();
        BufReader::new(connect(dashboard.address(), &request)).read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    };
    for header in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Origin: http://evil.example",
        "Origin: http://localhost:81",
        "Origin: https://localhost:80.evil.example",
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

fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn a_trace_shows_a_few_packets_and_ends_by_itself() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let (head, body) =
        ask(dashboard.address(), &post("/trace", JSON, "{\"port\":443,\"host\":\"10.0.0.0/8\"}"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    // Chunks of HTTP stand between the lines.
    let lines: Vec<Value> =
        body.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
    let lines: Vec<&Value> = lines.iter().filter(|line| line.is_object()).collect();
    assert_eq!(lines[0]["began"], "udp and port 443");
    assert_eq!(lines.iter().filter(|line| line["packet"].is_string()).count() as u64, TRACE_PACKETS);
    let end = &lines.last().expect("an end")["ended"];
    assert_eq!((&end["shown"], &end["by"]), (&TRACE_PACKETS.into(), &"packets".into()), "{end:#}");
    let filter = TraceFilter { host: Some("10.0.0.0/8".to_owned()), port: Some(443), protocol: None };
    assert_eq!(*run.asked.filters.lock().expect("no panic"), [filter]);
    // Its place is kept for a moment, so that others have their turn.
    let (head, body) = ask(dashboard.address(), &post("/trace", JSON, "{}"));
    assert!(head.starts_with("HTTP/1.1 409 ") && body.contains("ended just now"), "{head}{body}");
}

/// What a stranger on this machine can do with traces: have one, and no more.
#[test]
fn a_flood_of_traces_is_one_trace_and_ends_with_who_asked() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let mut first = connect(dashboard.address(), &post("/trace", JSON, "{\"port\":2}"));
    let mut head = [0; 15];
    first.read_exact(&mut head).expect("an answer");
    for _ in 0..2 * CLIENTS_MAX {
        let (head, _) = ask(dashboard.address(), &post("/trace", JSON, "{\"port\":2}"));
        assert!(head.starts_with("HTTP/1.1 409 "), "{head}");
    }
    assert_eq!(run.asked.filters.lock().expect("no panic").len(), 1);
    drop(first);
    // As soon as it has ended, and the moment is over, another may trace.
    let again = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        ask(dashboard.address(), &post("/trace", JSON, "{\"port\":1}"))
            .1
            .contains("this test has no packets of")
    });
    assert!(again, "a trace whose reader left goes on");
    // The run's end ends a trace.
    let begin = Instant::now();
    drop(dashboard);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn requests_that_ask_for_something_are_whole_small_and_of_this_page() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let status = |request: &str| {
        let (head, _) = ask(dashboard.address(), request);
        head.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let elsewhere = format!("{JSON}Origin: http://evil.example\r\n");
    let bearer = |token: &str, more: &str| {
        format!("Content-Type: application/toml\r\nAuthorization: Bearer {token}\r\n{more}")
    };
    for (request, expected) in [
        (post("/trace", "", "{}"), "415"),
        (post("/trace", "Content-Type: text/plain\r\n", "{}"), "415"),
        (post("/trace", &elsewhere, "{}"), "403"),
        (post("/trace", JSON, "{\"filter\":\"host evil.example\"}"), "400"),
        (post("/trace", JSON, "{\"port\":65536}"), "400"),
        (post("/trace", JSON, &format!("{{\"host\":\"{}\"}}", "1".repeat(5_000))), "413"),
        (get("/trace", "localhost"), "405"),
        (get("/reload", "localhost"), "405"),
        (post("/reload", "Content-Type: application/toml\r\n", ""), "401"),
        (post("/reload", &bearer("8c7b4a0d92e15f37", ""), ""), "401"),
        (post(&format!("/reload?token={TOKEN}"), "Content-Type: application/toml\r\n", ""), "401"),
        (post("/reload", &bearer(TOKEN, "Origin: http://evil.example\r\n"), ""), "403"),
        (post("/reload", &format!("{JSON}Authorization: Bearer {TOKEN}\r\n"), ""), "415"),
    ] {
        assert_eq!(status(&request), expected, "{request}");
    }
    assert!(run.asked.filters.lock().expect("no panic").is_empty());
    assert!(run.asked.reloads.lock().expect("no panic").is_empty());
    let plain = run.plain_dashboard();
    let (head, body) = ask(plain.address(), &post("/reload", &bearer(TOKEN, ""), ""));
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("--web-control"), "{head}{body}");
}

#[test]
fn who_shows_the_token_reloads_and_is_told_what_is_kept() {
    let run = Run::new();
    let dashboard = run.dashboard();
    let headers = format!("Content-Type: application/toml\r\nAuthorization: Bearer {TOKEN}\r\n");
    let (head, body) = ask(dashboard.address(), &post("/reload", &headers, "name = \"edge\""));
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && body.contains("access-list goes on with 12,000 flows"),
        "{head}{body}"
    );
    let (head, _) = ask(dashboard.address(), &post("/reload", &headers, " \n"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let (head, body) = ask(dashboard.address(), &post("/reload", &headers, "wrong"));
    assert!(
        head.starts_with("HTTP/1.1 422 ") && body == "chain.toml has no function `wrong`\n",
        "{head}{body}"
    );
    let asked = run.asked.reloads.lock().expect("no panic");
    assert_eq!(
        *asked,
        [Some("name = \"edge\"".to_owned()), None, Some("wrong".to_owned())],
        "without a text the run's own file"
    );
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
