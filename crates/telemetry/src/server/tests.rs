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
    let silent: Vec<_> =
        (1..CLIENTS_MAX).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
    assert!(fetch(server.address(), PATIENCE).is_ok());
    // Those beyond are turned away, until a silent one has been given up.
    let _last = TcpStream::connect(server.address()).expect("it listens");
    let answered = (0..100).find(|_| {
        thread::sleep(NAP);
        fetch(server.address(), PATIENCE).is_ok()
    });
    assert!(answered.is_some(), "{} silent clients are never given up", silent.len());
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
