//! A netlink socket to the kernel's routing tables, which never waits for long.

use std::io;
use std::thread;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A message of the kernel: its flags and what it says.
pub(super) type Message = NetlinkMessage<RouteNetlinkMessage>;

/// The socket.
pub(super) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
    /// Messages that could not be read.
    pub(super) unreadable: u64,
}

/// What a receive call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Messages,
    /// Messages, and some of them could not be read.
    Unread,
    /// Nothing is waiting.
    Nothing,
    /// The kernel dropped messages, for want of room.
    Lost,
}

/// More than the kernel puts into one buffer of a dump (32 KiB), or into one notification.
const BUFFER_BYTES: usize = 128 << 10;

/// Room for notifications between two updates, as far as `net.core.rmem_max` permits.
const NOTIFICATION_BYTES: u32 = 4 << 20;

/// `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP` of linux/rtnetlink.h.
const NEXT_HOPS: [u16; 2] = [104, 105];

/// How often a dump's next part is asked for before it is given up; a millisecond each.
const DUMP_TRIES: usize = 2_000;

impl Netlink {
    /// A socket that hears these groups of notifications, and those of `newer` that the kernel has.
    pub(super) fn open(groups: &[u32], newer: &[u32]) -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        if !groups.is_empty() {
            // Best effort: where it is less, messages are lost, and a dump follows.
            let _ = socket.set_rx_buf_sz(NOTIFICATION_BYTES);
        }
        groups.iter().try_for_each(|group| socket.add_membership(*group))?;
        newer.iter().for_each(|group| _ = socket.add_membership(*group));
        Ok(Netlink { socket, buffer: Vec::with_capacity(BUFFER_BYTES), sequence: 0, unreadable: 0 })
    }

    /// Sends a request, and returns its number.
    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(self.sequence)
    }

    /// Sends a request that makes an entry. A refusal comes back as a message.
    pub(super) fn create(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.send(message, NLM_F_REQUEST | NLM_F_CREATE).map(drop)
    }

    /// Receives one buffer of messages, if one is waiting.
    pub(super) fn receive(&mut self, mut each: impl FnMut(Message)) -> io::Result<Received> {
        self.buffer.clear();
        let len = match self.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Received::Nothing),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Received::Lost),
            Err(error) => return Err(error),
        };
        if len > self.buffer.len() {
            return Ok(Received::Lost);
        }
        let (mut rest, unreadable) = (self.buffer.as_slice(), self.unreadable);
        let mut is_unread = false;
        while let Ok(message) = NetlinkBuffer::new_checked(&rest) {
            // Never 0: the length that was checked includes the header.
            let len = (message.length() as usize).min(rest.len());
            match NetlinkMessage::deserialize(&rest[..len]) {
                Ok(message) => each(message),
                // Of next hops that are objects of their own, it is enough to know that they changed.
                Err(_) if NEXT_HOPS.contains(&message.message_type()) => is_unread = true,
                Err(_) => self.unreadable += 1,
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        let is_read = !is_unread && self.unreadable == unreadable;
        Ok(if is_read { Received::Messages } else { Received::Unread })
    }

    /// Asks for a dump and hands out its messages. `false` if the table changed meanwhile, and something may be missing.
    pub(super) fn dump(
        &mut self,
        request: RouteNetlinkMessage,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<bool> {
        let number = self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        let (mut end, mut is_whole, mut tries) = (None, true, 0);
        while end.is_none() {
            let received = self.receive(|message| {
                if message.header.sequence_number != number {
                    return;
                }
                is_whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(message) => each(message),
                    NetlinkPayload::Done(_) => end = Some(Ok(())),
                    NetlinkPayload::Error(error) => end = Some(Err(error.to_io())),
                    _ => {}
                }
            })?;
            match received {
                Received::Messages | Received::Unread => {}
                Received::Lost => is_whole = false,
                Received::Nothing if tries == DUMP_TRIES => return Err(io::ErrorKind::TimedOut.into()),
                Received::Nothing => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        end.unwrap_or(Ok(())).map(|()| is_whole)
    }

    /// Leaves little room for notifications, so that some are lost.
    #[cfg(test)]
    pub(super) fn squeeze(&self) {
        self.socket.set_rx_buf_sz(1_u32).expect("a smaller buffer");
    }
}
