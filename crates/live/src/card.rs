//! A card's own hash (receive-side scaling): which of its queues a packet comes by.
//!
//! The calls are those of `SIOCETHTOOL` (linux/ethtool.h), which kernels have had since 3.4. Netlink sets a card's hash
//! since Linux 6.17 alone, and the same things.
//!
//! Nothing else hangs on it: the receiver, a thread in front of the cores or the XDP program that picks a core's
//! socket, finds a packet's core by a hash of its own. So a card that cannot be set is no error.

use std::io;
use std::os::fd::OwnedFd;

use nix::net::if_::if_nametoindex;
use wire::Fields;

use crate::interface::{call_driver, control_socket};
use crate::{Interface, LiveError};

/// How a card is to hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardHash {
    /// The key of the Toeplitz hash. A card with a longer one has it repeated.
    pub key: Vec<u8>,
    /// The fields that are hashed, addresses and ports among them.
    pub fields: Fields,
}

/// What the driver of one card is asked, in the bytes of linux/ethtool.h; it writes its answer into them.
pub(crate) trait Driver {
    fn call(&mut self, request: &mut [u8]) -> io::Result<()>;
}

/// The driver of an interface.
pub(crate) struct OfInterface {
    socket: OwnedFd,
    interface: Interface,
}

impl Driver for OfInterface {
    fn call(&mut self, request: &mut [u8]) -> io::Result<()> {
        // Another interface may have its name now.
        if if_nametoindex(self.interface.name.as_str()) != Ok(self.interface.index) {
            return Err(io::ErrorKind::NotFound.into());
        }
        call_driver(&self.socket, &self.interface.name, request)
    }
}

/// `ETHTOOL_GRXFH`, `ETHTOOL_SRXFH`, `ETHTOOL_GRSSH` and `ETHTOOL_SRSSH`.
const GET_FIELDS: u32 = 0x29;
const SET_FIELDS: u32 = 0x2a;
const GET_HASH: u32 = 0x46;
const SET_HASH: u32 = 0x47;
/// `TCP_V4_FLOW`, `UDP_V4_FLOW`, `TCP_V6_FLOW` and `UDP_V6_FLOW`.
const FLOWS: [u32; 4] = [1, 2, 5, 6];
/// By field of a packet, `RXH_IP_SRC`, `RXH_IP_DST`, `RXH_L4_B_0_1` and `RXH_L4_B_2_3`.
const BITS: [(Fields, u64); 4] = [
    (Fields::SRC_ADDR, 1 << 4),
    (Fields::DST_ADDR, 1 << 5),
    (Fields::SRC_PORT, 1 << 6),
    (Fields::DST_PORT, 1 << 7),
];
/// `ETH_RSS_HASH_TOP`: Toeplitz.
const TOEPLITZ: u8 = 1;
/// Bytes of `struct ethtool_rxfh` before its table, which the key follows.
const HEADER_BYTES: usize = 24;
/// More than any card has.
const MOST_ENTRIES: usize = 1 << 16;
const MOST_KEY_BYTES: usize = 1 << 10;

/// What a card hashes by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hash {
    /// By entry, a queue. Empty stands for the table that the driver makes by itself.
    table: Vec<u32>,
    key: Vec<u8>,
    function: u8,
    /// `RXH_XFRM_*`: what is done to fields before they are hashed.
    transform: u8,
}

/// A card that hashes as it was told. Dropping this puts back what was there.
pub(crate) struct CardRss<D: Driver = OfInterface> {
    driver: D,
    before: Hash,
    /// By flow, the fields that were hashed, where others are now.
    fields: Vec<(u32, u64)>,
}

impl CardRss {
    /// Has the card of an interface hash so.
    ///
    /// # Errors
    /// [`LiveError`] if it cannot: it hashes as before then.
    pub(crate) fn set(interface: &Interface, wanted: &CardHash) -> Result<CardRss, LiveError> {
        let driver = OfInterface { socket: control_socket()?, interface: interface.clone() };
        CardRss::set_by(driver, interface.queues, wanted).map_err(|error| {
            let what = format!("the card's own hash of `{}` stays as it is", interface.name);
            match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => LiveError::refused(
                    format!("{what}: its driver has no settable hash"),
                    "Nothing is lost by it.",
                ),
                _ => LiveError::of_rights(what, error, &[caps::Capability::CAP_NET_ADMIN]),
            }
        })
    }
}

impl<D: Driver> CardRss<D> {
    fn set_by(mut driver: D, queues: u32, wanted: &CardHash) -> io::Result<CardRss<D>> {
        let mut before = read(&mut driver)?;
        let entries = before.table.len() as u32;
        let even = |entries| (0..entries).map(|entry| entry % queues).collect::<Vec<_>>();
        // What the driver made by itself it shall make again, also when there are more queues.
        if before.table == even(entries) {
            before.table.clear();
        }
        let key = wanted.key.iter().copied().cycle().take(before.key.len()).collect();
        let hash = Hash { table: even(entries), key, function: TOEPLITZ, transform: 0 };
        write(&mut driver, SET_HASH, &hash)?;
        // From here on a failure puts back what there was.
        let mut set = CardRss { driver, before, fields: Vec::with_capacity(FLOWS.len()) };
        let bits = BITS.iter().filter(|(field, _)| wanted.fields.contains(*field));
        let bits = bits.fold(0, |all, (_, bit)| all | bit);
        for flow in FLOWS {
            let now = fields(&mut set.driver, GET_FIELDS, flow, 0)?;
            if now != bits {
                fields(&mut set.driver, SET_FIELDS, flow, bits)?;
                set.fields.push((flow, now));
            }
        }
        Ok(set)
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        format!("the card hashes by the chain's fields with a key of {} bytes", self.before.key.len())
    }
}

impl<D: Driver> Drop for CardRss<D> {
    fn drop(&mut self) {
        // An interface that is gone has nothing to be put back.
        for (flow, before) in self.fields.drain(..).rev() {
            let _ = fields(&mut self.driver, SET_FIELDS, flow, before);
        }
        let _ = write(&mut self.driver, SET_HASH, &self.before);
    }
}

/// Has a card hash as asked, and says what became of it. The old settings come back with what is given.
pub(crate) fn set(
    interface: &Interface,
    wanted: Option<&CardHash>,
    remarks: &mut Vec<String>,
) -> Option<Box<CardRss>> {
    let set = CardRss::set(interface, wanted?);
    remarks.push(match &set {
        Ok(set) => format!("{}: {}", interface.name, set.describe()),
        Err(error) => format!("{}: {error}", interface.name),
    });
    set.ok().map(Box::new)
}

/// `struct ethtool_rxfh`, with room for a table and a key.
fn request(command: u32, hash: &Hash) -> Vec<u8> {
    let sizes = [command, 0, hash.table.len() as u32, hash.key.len() as u32];
    let mut request = sizes.map(u32::to_ne_bytes).concat();
    request.extend([hash.function, hash.transform, 0, 0, 0, 0, 0, 0]);
    request.extend(hash.table.iter().flat_map(|queue| queue.to_ne_bytes()));
    request.extend(&hash.key);
    request
}

fn write(driver: &mut impl Driver, command: u32, hash: &Hash) -> io::Result<()> {
    driver.call(&mut request(command, hash))
}

/// What a card hashes by.
fn read(driver: &mut impl Driver) -> io::Result<Hash> {
    // How long table and key are comes first.
    let nothing = Hash { table: Vec::new(), key: Vec::new(), function: 0, transform: 0 };
    let mut sizes = request(GET_HASH, &nothing);
    driver.call(&mut sizes)?;
    let (entries, key_bytes) = (word(&sizes, 8) as usize, word(&sizes, 12) as usize);
    if !(1..=MOST_ENTRIES).contains(&entries) || !(1..=MOST_KEY_BYTES).contains(&key_bytes) {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let room = Hash { table: vec![0; entries], key: vec![0; key_bytes], ..nothing };
    let mut answer = request(GET_HASH, &room);
    driver.call(&mut answer)?;
    let (table, key) = answer[HEADER_BYTES..].split_at(4 * entries);
    Ok(Hash {
        table: (0..entries).map(|entry| word(table, 4 * entry)).collect(),
        key: key.to_vec(),
        function: answer[16],
        transform: answer[17],
    })
}

/// Asks for the fields of a flow that are hashed, or sets them: `struct ethtool_rxnfc` up to its data, which is all of it
/// that these calls have.
fn fields(driver: &mut impl Driver, command: u32, flow: u32, bits: u64) -> io::Result<u64> {
    let mut request = [[command, flow].map(u32::to_ne_bytes).concat(), bits.to_ne_bytes().to_vec()].concat();
    driver.call(&mut request)?;
    Ok(request[8..].iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
