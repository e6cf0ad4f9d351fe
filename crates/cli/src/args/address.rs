//! An address in the arguments: a host and a port, resolved.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::str::FromStr;

use crate::explain::Code;
use crate::failure::Failure;

/// A host and a port, as the user wrote them, and what they stand for: one address or more.
#[derive(Clone, Debug)]
pub struct Address {
    text: String,
    found: Vec<SocketAddr>,
}

impl Address {
    /// The address that the system names first.
    pub fn first(&self) -> SocketAddr {
        self.found[0]
    }

    /// Listens there. Errors begin with `cannot` and what it is for, and `such_as` is an address that would do.
    pub fn listen(&self, what_for: &str, such_as: &str) -> Result<TcpListener, Failure> {
        TcpListener::bind(self.first()).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::AddrInUse => {
                    "Another program listens there. Choose another port, or 0 for any that is free."
                        .to_owned()
                }
                _ => format!("Give an address of this machine, such as {such_as}."),
            };
            Failure::usage(format!("cannot {what_for} at {self}: {error}\n{help}")).coded(Code::CannotListen)
        })
    }

    /// All that it may be: a name can stand for several.
    pub fn all(&self) -> &[SocketAddr] {
        &self.found
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let example = "give a host and a port, such as 127.0.0.1:9100 or [::1]:9100";
        let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("the port is missing; {example}"))?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(example.to_owned());
        }
        let found = text.to_socket_addrs().map_err(|error| format!("{error}; {example}"))?;
        let found: Vec<_> = found.collect();
        match found.is_empty() {
            true => Err(format!("no address is known for it; {example}")),
            false => Ok(Address { text: text.to_owned(), found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let address = |text: &str| text.parse::<Address>().map(|address| address.first().to_string());
        assert_eq!(address("127.0.0.1:9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address("[::1]:0").as_deref(), Ok("[::1]:0"));
        for wrong in
            ["", "9100", ":9100", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "::1"]
        {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
