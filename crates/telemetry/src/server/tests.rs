//! Tests of the metrics server, with clients that misbehave.

use super::*;
use crate::{CoreCounts, FetchError, Layout, fetch};

fn server() -> (Arc<Telemetry>, MetricsServer) {
    let telemetry = Arc::new(Telemetry::new(Layout::default(), 2));
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let server = MetricsServer::start(any, Arc::clone(&telemetry)).expect("a free port");
    (telemetry, server)
}

/// What the server says to these bytes.
fn ask(server: &MetricsServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.write_all(request).expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers and closes");
    said
}

#[test]
fn metrics_are_answered_as_they_are_now() {
    let (telemetry, server) = server();
    let mut writer = telemetry.writer(1).expect("a core");
    for packets in [7, 8] {
        writer.core(&CoreCounts { packets, ..CoreCounts::default() });
        let text = fetch(server.address(), PATIENCE).expect("it answers");
        assert!(text.contains(&format!("\npaceline_packets_total{{core=\"1\"}} {packets}\n")), "{text}");
    }
    let said = ask(&server, b"GET /metrics?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = said.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
}

#[test]
fn what_is_not_the_page_is_refused() {
    let (_, server) = server();
    let cases: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", "400 Bad Request"),
        (b"\r\n\r\n", "400 Bad Request"),
        (b"\xff\x00\xfe \x16\x03 \x01\r\n\r\n", "400 Bad Request"),
    ];
    for (request, status) in cases {
        let said = ask(&server, request);
        assert!(said.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {said}");
    }
    let long = vec![b'a'; REQUEST_BYTES];
    assert!(ask(&server, &long).starts_with("HTTP/1.1 431 "), "a request without an end");
}

#[test]
fn clients_that_say_nothing_keep_nobody_waiting() {
    let (_, server) = server();
    // More than there are places for: each beyond them takes the place of the one that came first.
    let mut silent: Vec<_> =
        (0..CLIENTS_MAX + 2).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    let begin = Instant::now();
    assert!(fetch(server.address(), PATIENCE).is_ok());
    assert!(begin.elapsed() < PATIENCE / 2, "nobody's patience had to end: {:?}", begin.elapsed());
    silent[0].set_read_timeout(Some(PATIENCE / 2)).expect("a socket");
    assert_eq!(silent[0].read(&mut [0; 9]).ok(), Some(0), "the first one is disconnected");
}

/// Slow clients hold their places for a bounded time, whatever part of the exchange they are slow in.
#[test]
fn a_client_that_trickles_is_given_up() {
    let (_, server) = server();
    let cases: [(&[u8], Duration); 2] =
        [(b"GET /metrics HTTP/1.1\r\n\r\n", FAREWELL), (b"GET /metrics HTTP/1.1\r\nX: ", PATIENCE)];
    for (request, most) in cases {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        stream.write_all(request).expect("it reads");
        let begin = Instant::now();
        // Writing fails when the server has closed the connection.
        while stream.write_all(b"x").is_ok() && begin.elapsed() < 3 * PATIENCE {
            thread::sleep(NAP);
        }
        assert!(begin.elapsed() < most + PATIENCE, "held for {:?} behind {request:?}", begin.elapsed());
    }
}

/// A client that reads its answer bit by bit.
#[test]
fn a_write_is_over_in_time_though_each_part_makes_progress() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut reads = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    let (writes, _) = listener.accept().expect("it came");
    let (begin, patience) = (Instant::now(), Duration::from_millis(300));
    let error = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut until = Until { stream: &writes, end: begin + patience };
            // A part at a time: each of them is in time by itself.
            let written = (0..100_000).try_for_each(|_| until.write_all(&[0; 4_096]));
            let _ = writes.shutdown(Shutdown::Both);
            written
        });
        let mut bytes = vec![0; 256 << 10];
        while reads.read(&mut bytes).is_ok_and(|read| read > 0) {
            thread::sleep(NAP);
        }
        writing.join().expect("no panic").expect_err("it does not end by itself")
    });
    assert!([io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&error.kind()), "{error}");
    assert!(begin.elapsed() < 20 * patience, "{:?}", begin.elapsed());
}

#[test]
fn the_end_of_the_server_frees_its_address() {
    let (telemetry, server) = server();
    let address = server.address();
    assert!(matches!(
        MetricsServer::start(address, Arc::clone(&telemetry)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse
    ));
    let _silent = TcpStream::connect(address).expect("it listens");
    drop(server);
    assert!(matches!(fetch(address, PATIENCE), Err(FetchError::Gone { .. })));
}
