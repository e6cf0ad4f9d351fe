//! What a chain file may say.

use super::*;

#[test]
fn options_that_make_no_sense_are_refused() {
    let a = "address = \"10.9.0.1\"";
    for (backends, expected) in [
        ("", "has 0 backends; 1 to 512 are possible"),
        ("{}", "has a backend, number 1, that has neither an `address` nor a `mac`"),
        ("{ port = 1, mac = \"02:00:00:00:00:01\" }", "number 1, that has a `port` and no `address`"),
        (
            "{ address = \"10.9.0.1\" }, { address = \"2001:db8::1\" }",
            "number 2, that has the address 2001:db8::1, of another IP version",
        ),
        ("{ address = \"192.0.2.1\" }", "number 1, that is the service itself"),
        ("{ address = \"0.0.0.0\" }", "has the address 0.0.0.0, which is nobody's"),
        (&format!("{{ {a}, port = 0 }}"), "has port 0; write a port from 1 to 65535"),
        (&format!("{{ {a}, weight = 1001 }}"), "has the weight 1001; it may be 0, for no new flows, to 1000"),
        (&format!("{{ {a} }}, {{ {a}, port = 80, weight = 2 }}"), "has the backend 10.9.0.1:80 twice"),
    ] {
        let error = option_error::<LoadBalancer>(&service(backends));
        assert!(
            error.starts_with("`services` has a service 192.0.2.1:80 that ") && error.contains(expected),
            "{error}"
        );
    }
    for timeout in ["syn", "tcp", "closing", "udp"] {
        let error = option_error::<LoadBalancer>(&format!("{timeout}_timeout_s = 0"));
        assert_eq!(error, format!("`{timeout}_timeout_s` must be at least 1"));
    }
    let port_zero = service(TWO).replace("port = 80\n", "port = 0\n");
    assert!(option_error::<LoadBalancer>(&port_zero).contains("has port 0"));
    let twice = format!("{}\n{}", service(TWO), service("{ address = \"10.9.0.9\" }"));
    assert_eq!(
        option_error::<LoadBalancer>(&twice),
        "`services` name tcp 192.0.2.1:80 twice; give it all its backends in one place"
    );
    let many: String = (1..=65)
        .map(|port| service(TWO).replace("port = 80\n", &format!("port = {port}\n")) + "\n")
        .collect();
    assert_eq!(option_error::<LoadBalancer>(&many), "`services` are 65; at most 64 are possible");
}

#[test]
fn a_backend_of_two_services_can_be_rewritten_for_neither() {
    let shared = format!("{}\n{}", service(TWO), service(TWO).replace("port = 80\n", "port = 81\n"));
    function::<LoadBalancer>(&shared);
    let error = option_error::<LoadBalancer>(&format!("rewrite_answers = true\n{shared}"));
    assert_eq!(
        error,
        "`rewrite_answers` cannot be true while backend 10.9.0.1:8080 serves both 192.0.2.1:80 and \
         192.0.2.1:81: nobody can tell which one it answers for; give it a port for each"
    );
}

#[test]
fn what_does_not_parse_is_refused_where_it_stands() {
    for (options, expected) in [
        (service("{ address = \"10.9.0\" }"), "invalid IP address syntax"),
        (service("{ adress = \"10.9.0.1\" }"), "unknown field `adress`"),
        (
            service("{ address = \"10.9.0.1\", state = \"up\" }"),
            "unknown variant `up`, expected one of `active`, `drain`, `down`",
        ),
        (
            service("{ mac = \"02:00:00:00:00\" }"),
            "\"02:00:00:00:00\" is no MAC address; write one like \"02:00:00:00:00:0a\"",
        ),
        (service("{ mac = \"02:00:00:00:00:00:00\" }"), "is no MAC address"),
        (service("{ mac = \"02:00:00:00:00:+1\" }"), "is no MAC address"),
        (service("{ mac = \"03:00:00:00:00:00\" }"), "is a group's MAC address"),
        (
            "policy = \"wrr\"".into(),
            "unknown variant `wrr`, expected one of `maglev`, `random`, `round-robin`",
        ),
        ("[[services]]\nvip = \"192.0.2.1\"\nbackends = []".into(), "missing field `port`"),
    ] {
        let error = toml::from_str::<Options>(&options).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
}
