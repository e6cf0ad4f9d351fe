//! By which names a browser may ask for the page.

use std::net::{IpAddr, Ipv6Addr};

/// The host names that requests may have in their `Host` header. A page of a stranger can have its own name resolve to
/// 127.0.0.1 (DNS rebinding), and would then read this server as its own; it cannot change the name that the browser
/// sends. An address is no name, so nobody can have it resolve to something else.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    name: Option<String>,
}

impl Hosts {
    /// Addresses, `localhost`, and the host of `address` as the user wrote it: `HOST:PORT`.
    pub fn of(address: &str) -> Hosts {
        let name = host(address).filter(|name| name.parse::<IpAddr>().is_err());
        Hosts { name: name.map(str::to_owned) }
    }

    /// Whether a `Host` header is one of them, with any port.
    pub fn allow(&self, header: &str) -> bool {
        if let Some(inner) = header.strip_prefix('[') {
            return inner.split_once(']').is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
        }
        let Some(name) = host(header) else { return false };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The part before the port, which may be missing.
fn host(authority: &str) -> Option<&str> {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) => return None,
        None => authority,
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_name_is_refused_and_addresses_are_not() {
        let hosts = Hosts::of("gateway.example:8080");
        for allowed in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[::1]",
            "localhost:8080",
            "LOCALHOST",
            "192.0.2.7:80",
            "gateway.example:8080",
            "Gateway.Example",
        ] {
            assert!(hosts.allow(allowed), "{allowed}");
        }
        for refused in [
            "",
            ":8080",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil.example]:80",
            "[::1",
            "127.0.0.1:80x",
            "user@127.0.0.1:80",
        ] {
            assert!(!hosts.allow(refused), "{refused}");
        }
        assert!(!Hosts::of("127.0.0.1:8080").allow("gateway.example"));
    }
}
