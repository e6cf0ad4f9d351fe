//! Tests of setting a card's hash, with a driver that is simulated.

use std::sync::{Arc, Mutex};

use super::*;

const QUEUES: u32 = 4;

/// A card as a driver has it: what it hashes by, all calls, and which of them it refuses.
struct Card {
    hash: Hash,
    fields: [u64; 8],
    calls: Vec<Vec<u8>>,
    /// The call of this command, and for a flow, that is refused, and with which error.
    refuses: Option<(u32, u32, i32)>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Card>>);

impl Driver for Fake {
    fn call(&mut self, request: &mut [u8]) -> io::Result<()> {
        let mut card = self.0.lock().expect("nobody panics");
        let (command, flow) = (word(request, 0), word(request, 4));
        if let Some((refused, of, error)) = card.refuses
            && (command, flow) == (refused, of)
        {
            return Err(io::Error::from_raw_os_error(error));
        }
        match command {
            GET_HASH => {
                let answer = super::request(GET_HASH, &card.hash);
                // Without room for table and key it says how long they are.
                request[..HEADER_BYTES].copy_from_slice(&answer[..HEADER_BYTES]);
                if request.len() > HEADER_BYTES {
                    request.copy_from_slice(&answer);
                }
            }
            SET_HASH => {
                let (entries, key_bytes) = (word(request, 8) as usize, word(request, 12) as usize);
                let (table, key) = request[HEADER_BYTES..].split_at(4 * entries);
                assert_eq!((key.len(), card.hash.key.len()), (key_bytes, key_bytes));
                card.hash.table = match entries {
                    0 => (0..card.hash.table.len() as u32).map(|entry| entry % QUEUES).collect(),
                    _ => (0..entries).map(|entry| word(table, 4 * entry)).collect(),
                };
                card.hash.key = key.to_vec();
                (card.hash.function, card.hash.transform) = (request[16], request[17]);
                card.calls.push(request.to_vec());
            }
            GET_FIELDS => {
                request[8..].copy_from_slice(&card.fields[flow as usize].to_ne_bytes());
            }
            SET_FIELDS => {
                card.fields[flow as usize] = u64::from_ne_bytes(request[8..].try_into().expect("eight"));
                card.calls.push(request.to_vec());
            }
            _ => panic!("call {command:#x}"),
        }
        Ok(())
    }
}

/// Eight entries, all to queues 0 and 1, as set by hand; UDP by addresses alone, as most cards begin.
fn card() -> Fake {
    let hash =
        Hash { table: vec![0, 0, 0, 0, 1, 1, 1, 1], key: (1..=44).collect(), function: 2, transform: 1 };
    let fields = [0, 0xf0, 0x30, 0, 0, 0xf0, 0x30, 0];
    Fake(Arc::new(Mutex::new(Card { hash, fields, calls: Vec::new(), refuses: None })))
}

fn state(card: &Fake) -> (Hash, [u64; 8]) {
    let card = card.0.lock().expect("nobody panics");
    (card.hash.clone(), card.fields)
}

fn wanted() -> CardHash {
    CardHash { key: [0x6d, 0x5a].repeat(20), fields: Fields::ADDRS | Fields::PORTS }
}

#[test]
fn a_card_hashes_as_it_was_told_and_then_as_before() {
    let card = card();
    let before = state(&card);
    let set = CardRss::set_by(card.clone(), QUEUES, &wanted()).expect("it can");
    let (hash, fields) = state(&card);
    let key = [0x6d, 0x5a].repeat(22);
    assert_eq!(hash, Hash { table: vec![0, 1, 2, 3, 0, 1, 2, 3], key, function: TOEPLITZ, transform: 0 });
    assert_eq!(fields, [0, 0xf0, 0xf0, 0, 0, 0xf0, 0xf0, 0]);
    drop(set);
    assert_eq!(state(&card), before);
}

/// As linux/ethtool.h has them.
#[test]
#[cfg(target_endian = "little")]
fn calls_are_the_bytes_that_the_kernel_reads() {
    let card = card();
    drop(CardRss::set_by(card.clone(), QUEUES, &wanted()).expect("it can"));
    let calls = &card.0.lock().expect("nobody panics").calls;
    let mut first = vec![0x47, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 44, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    for queue in [0, 1, 2, 3, 0, 1, 2, 3] {
        first.extend([queue, 0, 0, 0]);
    }
    first.extend([0x6d, 0x5a].repeat(22));
    assert_eq!(calls[0], first);
    assert_eq!(calls[1], [0x2a, 0, 0, 0, 2, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0, 0], "UDP over IPv4");
    assert_eq!(calls[2], [0x2a, 0, 0, 0, 6, 0, 0, 0, 0xf0, 0, 0, 0, 0, 0, 0, 0], "UDP over IPv6");
    assert_eq!(calls[3], [0x2a, 0, 0, 0, 6, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0], "and back");
    assert_eq!(calls[5][..24], [0x47, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 44, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(calls.len(), 6);
}

/// A table that the driver made by itself is left to it again: with one that was set it refuses fewer queues.
#[test]
fn a_table_that_nobody_had_set_counts_as_not_set_again() {
    let card = card();
    card.0.lock().expect("nobody panics").hash.table = vec![0, 1, 2, 3, 0, 1, 2, 3];
    drop(CardRss::set_by(card.clone(), QUEUES, &wanted()).expect("it can"));
    let card = card.0.lock().expect("nobody panics");
    let last = card.calls.last().expect("it was put back");
    assert_eq!((word(last, 0), word(last, 8), word(last, 12)), (SET_HASH, 0, 44));
}

/// Planted: a driver that refuses one of the calls, whichever it is. The card hashes as before.
#[test]
fn what_a_driver_refuses_half_way_is_undone() {
    for (refused, flow) in
        [(GET_HASH, 0), (SET_HASH, 0), (GET_FIELDS, 1), (GET_FIELDS, 6), (SET_FIELDS, 2), (SET_FIELDS, 6)]
    {
        let card = card();
        let before = state(&card);
        card.0.lock().expect("nobody panics").refuses = Some((refused, flow, libc::EOPNOTSUPP));
        let error = CardRss::set_by(card.clone(), QUEUES, &wanted()).err().expect("it cannot");
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(state(&card), before, "{refused:#x} for flow {flow}");
    }
}

#[test]
fn a_driver_that_tells_no_table_or_an_endless_one_has_none() {
    for (entries, key_bytes) in [(0, 40), (8, 0), (MOST_ENTRIES + 1, 40)] {
        let card = card();
        {
            let hash = &mut card.0.lock().expect("nobody panics").hash;
            (hash.table, hash.key) = (vec![0; entries], vec![0; key_bytes]);
        }
        let error = CardRss::set_by(card.clone(), QUEUES, &wanted()).err().expect("it cannot");
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(card.0.lock().expect("nobody panics").calls.is_empty(), "nothing was set");
    }
}

/// The loopback has no card.
#[test]
fn an_interface_without_a_card_says_so() {
    let loopback = Interface::open("lo").expect("each namespace has one");
    let error = CardRss::set(&loopback, &wanted()).err().expect("it cannot").to_string();
    assert!(error.contains("no settable hash") || error.contains("lacks CAP_NET_ADMIN"), "{error}");
}
