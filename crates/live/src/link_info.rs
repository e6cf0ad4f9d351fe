//! What the kernel says of an interface by netlink: whether it has an XDP program, and where the other end of a pair is.

use std::io;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp, XdpAttached};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// More than one link's description takes.
const ANSWER_BYTES: usize = 64 << 10;

/// Where the other end of a virtual pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// In this network namespace, with this index.
    Here(u32),
    /// In another one.
    Elsewhere,
}

/// Whether the interface of this index has an XDP program, whosever it is.
pub(crate) fn has_program(index: u32) -> io::Result<bool> {
    described(index).map(|link| is_attached(&link))
}

/// Where the other end of the virtual pair is whose one end has this index.
pub(crate) fn peer(index: u32) -> io::Result<Peer> {
    let link = described(index)?;
    let is_elsewhere = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::LinkNetNsId(_));
    let other = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    };
    match link.attributes.iter().find_map(other) {
        Some(index) if !link.attributes.iter().any(is_elsewhere) => Ok(Peer::Here(index)),
        _ => Ok(Peer::Elsewhere),
    }
}

fn described(index: u32) -> io::Result<LinkMessage> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut link = LinkMessage::default();
    link.header.index = index;
    let request = NetlinkPayload::InnerMessage(RouteNetlinkMessage::GetLink(link));
    let mut request = NetlinkMessage::new(header, request);
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    // The kernel has answered by the time that the request is sent.
    socket.recv(&mut answer, libc::MSG_DONTWAIT)?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(link),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn is_attached(link: &LinkMessage) -> bool {
    let is_attached = |about: &LinkXdp| matches!(about, LinkXdp::Attached(how) if *how != XdpAttached::None);
    let about = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Xdp(about) => about.iter().any(is_attached),
        _ => false,
    };
    link.attributes.iter().any(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_none() {
        // Each namespace has it as its first.
        assert!(!has_program(1).expect("it is there"));
        assert!(has_program(u32::MAX >> 1).is_err(), "there is no such interface");
    }
}
