//! Backends that are down, by hand or by their checks, and those of weight 0; how backends are listed.

use super::*;

const A: &str = "address = \"10.9.0.1\", port = 8080";
const B: &str = "address = \"10.9.0.2\", port = 8080";

/// What becomes of a packet of a flow that began with 10.9.0.1, which then is so; and how many flows chose again.
fn after(a: &str, when_down: &str, packet: &Headers) -> (Verdict, u8, usize, Option<State>) {
    let mut flow = None;
    continued(&service(&format!("{{ {A} }}")), &mut flow, &Headers { tcp_flags: SYN, ..*packet });
    assert_eq!(flow.map(|state| state.packets), Some(1));
    let options = format!("when_down = \"{when_down}\"\n{}", service(&format!("{{ {A}, {a} }}, {{ {B} }}")));
    let (verdict, edits, moved) = continued(&options, &mut flow, packet);
    let mut headers = *packet;
    edits.apply_to_headers(&mut headers);
    let to = if edits.is_empty() { 0 } else { headers.dst.0[15] };
    (verdict, to, moved, flow)
}

#[test]
fn open_connections_of_a_backend_that_is_down_do_as_the_chain_says() {
    let (ack, syn, fin) = (with_flags(ACK, tcp(1)), with_flags(SYN, tcp(1)), with_flags(FIN, tcp(1)));
    for down in ["state = \"down\"", "health = \"failed\"", "state = \"drain\", health = \"failed\""] {
        let (verdict, to, moved, flow) = after(down, "drop", &ack);
        assert_eq!((verdict, to, moved), (Verdict::Drop(BACKEND_DOWN), 0, 0), "{down}");
        // It goes on, should the backend come back.
        let mut flow = flow;
        let (verdict, ..) = continued(&service(&format!("{{ {B} }}, {{ {A} }}")), &mut flow, &ack);
        assert_eq!(
            (verdict, flow.map(|state| (state.backend, state.packets))),
            (PASS, Some((1, 2))),
            "{down}"
        );
        // An end is dropped, too, and the flow is forgotten soon.
        let (verdict, .., flow) = after(down, "drop", &fin);
        assert_eq!(verdict, Verdict::Drop(BACKEND_DOWN), "{down}");
        assert_eq!(flow.map(|state| state.phase), Some(Phase::Closing));
        // What begins chooses again: nothing of it is lost.
        assert_eq!(after(down, "drop", &syn).1, 2, "{down}");
        let (verdict, to, moved, flow) = after(down, "move", &ack);
        assert_eq!((verdict, to, moved), (PASS, 2, 1), "{down}");
        assert_eq!(flow.map(|state| state.packets), Some(2));
        let (verdict, to, moved, _) = after(down, "stay", &ack);
        assert_eq!((verdict, to, moved), (PASS, 1, 0), "{down}");
    }
    // Neither draining nor the weight 0 is down.
    for drains in ["state = \"drain\"", "weight = 0"] {
        let (verdict, to, moved, _) = after(drains, "drop", &ack);
        assert_eq!((verdict, to, moved), (PASS, 1, 0), "{drains}");
    }
}

/// Datagrams have no connection that the other backend would not know.
#[test]
fn udp_to_a_backend_that_is_down_chooses_again() {
    let udp_service = |list: &str| service(list).replace("port = 80\n", "port = 80\nprotocol = \"udp\"\n");
    let mut flow = None;
    continued(&udp_service(&format!("{{ {A} }}")), &mut flow, &udp(tcp(1)));
    let down = udp_service(&format!("{{ {A}, state = \"down\" }}, {{ {B} }}"));
    let (verdict, _, moved) = continued(&down, &mut flow, &udp(tcp(1)));
    assert_eq!((verdict, moved, flow.map(|state| state.backend)), (PASS, 1, Some(1)));
}

/// Hand and checks have to allow new flows, both, and so has the weight.
#[test]
fn new_flows_go_where_all_say_that_they_may() {
    for (a, takes) in [
        ("weight = 1", true),
        ("weight = 0", false),
        ("state = \"drain\"", false),
        ("state = \"down\"", false),
        ("health = \"failed\"", false),
        ("health = \"good\"", true),
        ("state = \"drain\", health = \"good\"", false),
        ("state = \"active\", health = \"failed\"", false),
    ] {
        for policy in ["maglev", "random", "round-robin"] {
            for when_down in ["drop", "stay", "move"] {
                let list = format!("{{ {A}, {a} }}, {{ {B} }}");
                let options =
                    format!("policy = \"{policy}\"\nwhen_down = \"{when_down}\"\n{}", service(&list));
                let mut rig = rig(&options);
                let mut got = [0; 3];
                for number in 0..60 {
                    rig.packet(0, &client(number));
                    got[usize::from(backend(&rig))] += 1;
                }
                assert_eq!(got[1] > 0, takes, "{a}, {policy}: {got:?}");
                assert_eq!(got[1] + got[2], 60);
            }
        }
    }
    let mut none = rig(&service(&format!("{{ {A}, health = \"failed\" }}, {{ {B}, weight = 0 }}")));
    assert_eq!(none.packet(0, &client(1)), Verdict::Drop(NO_BACKEND));
}

#[test]
fn backends_are_listed_as_they_are() {
    let options = format!(
        "check_interval_ms = 500\ncheck_timeout_ms = 200\ncheck_fall = 4\n[[services]]\nvip = \"192.0.2.1\"\nport = 80\n\
         check = \"http www.example.org/health?a\"\nbackends = [{{ {A}, weight = 0, health = \"failed\" }},\n\
         {{ mac = \"02:00:00:00:00:0a\", check_at = \"[2001:db8::7]:8081\", state = \"drain\" }}]\n\
         [[services]]\nvip = \"192.0.2.0/24\"\nport = \"any\"\nbackends = [{{ address = \"10.9.0.1\" }}]"
    );
    let found = function::<LoadBalancer>(&options).backends();
    let ms = core::time::Duration::from_millis;
    let check = |at: &str| nf::Check {
        at: at.parse().unwrap(),
        http: Some(nf::HttpCheck { host: "www.example.org".into(), path: "/health?a".into() }),
        interval: ms(500),
        timeout: ms(200),
        rise: 2,
        fall: 4,
    };
    let expected = [
        nf::Backend {
            place: (0, 0),
            service: "tcp 192.0.2.1:80".into(),
            name: "10.9.0.1:8080".into(),
            address: Some("10.9.0.1".parse().unwrap()),
            state: "active",
            weight: 0,
            is_failed: true,
            check: Some(check("10.9.0.1:8080")),
        },
        nf::Backend {
            place: (0, 1),
            service: "tcp 192.0.2.1:80".into(),
            name: "02:00:00:00:00:0a".into(),
            address: None,
            state: "drain",
            weight: 1,
            is_failed: false,
            check: Some(check("[2001:db8::7]:8081")),
        },
        nf::Backend {
            place: (1, 0),
            service: "tcp 192.0.2.0/24 port any".into(),
            name: "10.9.0.1".into(),
            address: Some("10.9.0.1".parse().unwrap()),
            state: "active",
            weight: 1,
            is_failed: false,
            check: None,
        },
    ];
    assert_eq!(found, expected);
    let report = rig(&options).report();
    assert_eq!([&report[0].rows[0][1], &report[0].rows[1][1]], ["failed", "drain"]);
}

#[test]
fn checks_that_cannot_be_done_are_refused() {
    let checked = |check: &str, backend: &str| {
        service(backend).replace("port = 80\n", &format!("port = 80\ncheck = \"{check}\"\n"))
    };
    let mac = "{ mac = \"02:00:00:00:00:0a\" }";
    let any = checked("tcp", "{ address = \"10.9.0.1\" }").replace("port = 80\n", "port = \"any\"\n");
    let ok = checked("tcp", &format!("{{ {A} }}"));
    function::<LoadBalancer>(&ok);
    for (options, expected) in [
        (checked("https /", TWO), "Paceline speaks no TLS"),
        (checked("icmp", TWO), "it is neither; write \"tcp\", \"http /health\""),
        (checked("tcp 80", TWO), "it is neither"),
        (checked("http", TWO), "behind \"http \" comes what to ask for"),
        (checked("http health", TWO), "behind \"http \" comes what to ask for"),
        (checked("http /a b", TWO), "no space"),
        (checked("http /\\r\\nX: y", TWO), "no space"),
        (checked(&format!("http /{}", "x".repeat(255)), TWO), "at most 255"),
        (checked("tcp", mac), "number 1, that has a MAC address alone and cannot be checked there"),
        (any, "number 1, that has no port at which it can be checked"),
        (checked("tcp", &format!("{{ {A}, check_at = \"0.0.0.0:80\" }}")), "0.0.0.0:80, which is nobody's"),
        (checked("tcp", &format!("{{ {A}, check_at = \"10.9.0.1:0\" }}")), "10.9.0.1:0, which is nobody's"),
        (checked("tcp", &format!("{{ {A}, check_at = \"10.9.0.1\" }}")), "invalid socket address"),
        (format!("check_interval_ms = 49\n{ok}"), "`check_interval_ms` must be at least 50"),
        (format!("check_timeout_ms = 2001\n{ok}"), "`check_timeout_ms` must be 1 to 2000"),
        (format!("check_timeout_ms = 0\n{ok}"), "`check_timeout_ms` must be 1 to 2000"),
        (format!("check_rise = 0\n{ok}"), "`check_rise` must be 1 to 100"),
        (format!("check_fall = 101\n{ok}"), "`check_fall` must be 1 to 100"),
    ] {
        let error = refused(&options);
        assert!(error.contains(expected), "{options}: {error}");
    }
}

/// What is wrong with options, where they are read or where they are checked.
fn refused(options: &str) -> String {
    match toml::from_str::<Options>(options) {
        Err(error) => error.to_string(),
        Ok(options) => LoadBalancer::new(options).map(drop).expect_err("it is refused").to_string(),
    }
}
