//! What becomes of packets that XDP programs redirect to an interface.

use std::io;

use nix::net::if_::if_indextoname;

use crate::interface::{Interface, has_gro};
use crate::link_info::{Peer, has_program, peer};

/// What becomes of packets that XDP programs redirect to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// They leave by it, as far as is known.
    Leaves,
    /// The kernel drops them: the interface is one end of a virtual pair whose other end has neither GRO nor an XDP program.
    Vanishes {
        /// The other end.
        peer: String,
    },
    /// The other end of its pair is in another network namespace, where this program cannot look.
    Unknown,
}

impl Interface {
    /// What becomes of packets that XDP programs redirect to this interface: three system calls.
    ///
    /// # Errors
    /// The kernel does not tell, or the interface is gone.
    pub fn redirected(&self) -> io::Result<Redirected> {
        if self.driver != "veth" {
            return Ok(Redirected::Leaves);
        }
        let Peer::Here(index) = peer(self.index)? else { return Ok(Redirected::Unknown) };
        let name = if_indextoname(index).map_err(io::Error::from)?.to_string_lossy().into_owned();
        match has_gro(&name)? || has_program(index)? {
            true => Ok(Redirected::Leaves),
            false => Ok(Redirected::Vanishes { peer: name }),
        }
    }
}
