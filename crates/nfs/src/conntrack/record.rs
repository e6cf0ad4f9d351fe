//! The tracker that keeps a record of each connection, for `paceline run --connections`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bitflags::bitflags;
use nf::{
    About, Connection, Cx, EndedOf, Extras, Flows, FullTable, FunctionReport, NetworkFunction, OptionError,
    Records, Reload, Reports, StateValue, TwoSided, Verdict,
};
use wire::{Fields, Headers, Stamp, protocol, tcp_flags};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use super::part::Part;
use super::state::State;
use super::tcp::{Side, TcpState};
use super::{Conntrack, Options, now_ms, segment, tables};

/// What the report calls the table of records: before the number.
pub const RECORDS_TITLE: &str = "Connections recorded: ";

/// [`Conntrack`] with a record of each connection, which the option `records` asks for. It is a type of its own, so that the
/// tracker without records pays nothing for them.
///
/// The report has a line of JSON for each connection, with the names of Zeek's `conn.log`.
#[derive(Clone, Debug)]
pub struct Recorder {
    tracker: Conntrack,
    /// How many records that have ended each core keeps.
    keep: usize,
}

/// The fields of a packet that the tracker reads, and what a record does: 58 bytes.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, TryFromBytes)]
#[repr(C, packed(2))]
pub struct Meta {
    tracked: segment::Meta,
    l3_len: u16,
    payload_len: u16,
}

const _: () = assert!(size_of::<Meta>() == 58);

/// What is kept of a connection: 152 bytes. Counts are of packets that pass, of the originator and of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Recorded {
    /// As [`Conntrack`] keeps it.
    pub(super) tracked: State,
    pub(super) marks: Marks,
    /// Letters of Zeek's history, four bits each, the first in the lowest ones: [`Letter`] and side.
    pub(super) history: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Steps, also those of packets that did not pass: each step of a record has to raise something.
    steps: u64,
    pub(super) packets: [u32; 2],
    pub(super) ip_bytes: [u64; 2],
    /// Bytes of payload; of TCP by sequence numbers, so that none counts twice.
    pub(super) bytes: [u64; 2],
    /// Bytes of payload as packets had them.
    pub(super) payload_bytes: [u64; 2],
}

const _: () = assert!(size_of::<Recorded>() == 152);

/// What was seen of a connection: a bit for each [`Letter`] of each side, and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(transparent)]
pub(super) struct Marks(u32);

bitflags! {
    impl Marks: u32 {
        /// The letters.
        const LETTERS = (1 << 16) - 1;
        /// The tracker has removed the connection: the record ends.
        const IS_GONE = 1 << 16;
    }
}

/// A letter of Zeek's history. In upper case it is the originator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Letter {
    Syn,
    SynAck,
    Ack,
    Data,
    Fin,
    Rst,
}

impl Letter {
    pub(super) const ALL: [(Letter, char); 6] = [
        (Letter::Syn, 's'),
        (Letter::SynAck, 'h'),
        (Letter::Ack, 'a'),
        (Letter::Data, 'd'),
        (Letter::Fin, 'f'),
        (Letter::Rst, 'r'),
    ];

    fn of_side(self, side: Side) -> u32 {
        self as u32 + 8 * side as u32
    }
}

impl NetworkFunction for Recorder {
    const ABOUT: About = Conntrack::ABOUT;
    const READS: Fields = segment::Meta::READS;
    const EXTRAS: Extras<Self> = Extras {
        filled_by: Conntrack::EXTRAS.filled_by,
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        sides: TwoSided { wants: Self::wants_sides, ..TwoSided::NONE },
        records: Records { totals: Self::totals, begin_anew: true, keep: Self::keep, rank: Self::rank },
        reports: Reports { report: Self::report, hint: Self::hint, state: Self::state },
        reload: Reload::ANY,
        live: Self::live,
        ..Extras::NONE
    };

    type Key = Connection;
    type Meta = Meta;
    type State = Recorded;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Recorder, OptionError> {
        Ok(Recorder { tracker: Conntrack::new(options)?, keep: options.records as usize })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        let tracked = segment::Meta::of(headers)?;
        Some(Meta { tracked, l3_len: headers.l3_len, payload_len: headers.payload_len() })
    }

    fn key(meta: &Meta) -> Connection {
        Conntrack::key(&meta.tracked)
    }

    fn step(&self, flow: &mut Option<Recorded>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let before =
            flow.filter(|record| !record.marks.contains(Marks::IS_GONE)).map(|record| record.tracked);
        let mut tracked = before;
        let stamp = cx.stamp;
        let verdict = self.tracker.step(&mut tracked, &meta.tracked, &mut cx.reborrow());
        let is_closed = |state: State| matches!(state.tcp(), TcpState::TimeWait | TcpState::Closed);
        match (before, tracked) {
            (_, None) => {
                // A refused packet, or the last of a connection, which stays here until its record has ended.
                let Some(record) = flow else { return verdict };
                record.steps += 1;
                if let Some(before) = before {
                    record.marks.insert(Marks::IS_GONE);
                    record.count(Some(before), meta, stamp);
                }
                return verdict;
            }
            (Some(before), Some(after)) if !(is_closed(before) && after.tcp() == TcpState::SynSent) => {
                let Some(record) = flow else { return verdict };
                record.steps += 1;
                record.tracked = after;
                let is_error = meta.tracked.other().is_some_and(|other| other.part == Part::Error);
                if verdict == Verdict::Forward && !is_error {
                    record.count(Some(before), meta, stamp);
                }
            }
            // The first packet of a connection; or of one between the ends of one that is over.
            (_, Some(after)) => flow.insert(Recorded::new(after, stamp)).count(None, meta, stamp),
        }
        verdict
    }

    fn idle_timeout_ns(&self, record: &Recorded) -> u64 {
        match record.marks.contains(Marks::IS_GONE) {
            true => 1,
            false => self.tracker.idle_timeout_ns(&record.tracked),
        }
    }
}

impl Recorder {
    fn rejected(&self, record: &Recorded, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        self.tracker.rejected(&record.tracked, &meta.tracked, cx)
    }

    fn wants_sides(&self) -> Option<&'static str> {
        self.tracker.wants_sides()
    }

    fn totals(&self, record: &Recorded) -> [u64; 2] {
        [record.steps, record.ip_bytes.iter().sum()]
    }

    fn keep(&self) -> usize {
        self.keep
    }

    fn rank(&self, record: &Recorded) -> u64 {
        record.ip_bytes.iter().sum()
    }

    fn hint(&self, packets: u64, dropped: &dyn Fn(&str) -> u64) -> Option<String> {
        self.tracker.hint(packets, dropped)
    }

    fn state(&self, record: &Recorded) -> Vec<(&'static str, StateValue)> {
        let mut values = record.tracked.shown();
        values.extend([
            ("history", record.history().into()),
            ("originator_packets", record.packets[0].into()),
            ("responder_packets", record.packets[1].into()),
        ]);
        values
    }

    fn live(&self) -> Option<Recorder> {
        self.tracker.live().map(|tracker| Recorder { tracker, ..self.clone() })
    }

    fn report(&self, flows: Flows<'_, '_, Self>, ended: &EndedOf<Self>, now: Stamp) -> Vec<FunctionReport> {
        let live: Vec<(&Connection, &Recorded)> = flows.collect();
        let mut tables = tables::of(&mut live.iter().map(|(key, record)| (*key, &record.tracked)));
        let ended_whole = ended.largest();
        let left_out = ended.records() - ended_whole.len() as u64;
        let now_ms = now_ms(now);
        let open = |record: &Recorded| {
            let is_over = record.marks.contains(Marks::IS_GONE) || record.tracked.is_due(now_ms);
            !is_over && !matches!(record.tracked.tcp(), TcpState::TimeWait | TcpState::Closed)
        };
        let mut records: Vec<(&Connection, &Recorded, bool)> =
            live.iter().map(|(key, record)| (*key, *record, open(record))).collect();
        records.extend(ended_whole.iter().map(|(key, record)| (*key, *record, false)));
        records.sort_unstable_by_key(|(key, record, _)| (record.first_ns, key.as_bytes().to_vec()));
        let rows: Vec<Vec<String>> =
            records.iter().map(|(key, record, is_open)| vec![record.line(key, *is_open)]).collect();
        let title = match left_out {
            0 => format!("{RECORDS_TITLE}{}", rows.len()),
            _ => format!(
                "{RECORDS_TITLE}{}; {left_out} ended smaller, and found no room in `records`",
                rows.len()
            ),
        };
        tables.push(FunctionReport { title, columns: vec!["connection"], rows });
        tables
    }
}

impl Recorded {
    fn new(tracked: State, stamp: Stamp) -> Recorded {
        Recorded {
            tracked,
            marks: Marks::empty(),
            history: 0,
            first_ns: stamp.time_ns,
            last_ns: stamp.time_ns,
            steps: 1,
            packets: [0; 2],
            ip_bytes: [0; 2],
            bytes: [0; 2],
            payload_bytes: [0; 2],
        }
    }

    /// Counts a packet that passes. `before` is the tracker's state ahead of it, of a connection that there was.
    fn count(&mut self, before: Option<State>, meta: &Meta, stamp: Stamp) {
        let side = self.tracked.side(meta.tracked.is_from_low());
        let own = side as usize;
        let payload = u64::from(meta.payload_len);
        self.last_ns = self.last_ns.max(stamp.time_ns);
        self.packets[own] = self.packets[own].saturating_add(1);
        self.ip_bytes[own] = self.ip_bytes[own].saturating_add(meta.l3_len.into());
        self.payload_bytes[own] = self.payload_bytes[own].saturating_add(payload);
        let mut bytes = payload;
        match meta.tracked.other() {
            None => {
                let flags = meta.tracked.tcp_flags;
                bytes = self
                    .sequence_bytes(before, own, flags)
                    .filter(|_| !meta.tracked.is_fragment())
                    .unwrap_or(payload);
                self.note_tcp(flags, payload > 0, side);
            }
            Some(other) if other.protocol == protocol::UDP => self.note(Letter::Data, side),
            Some(_) => {}
        }
        self.bytes[own] = self.bytes[own].saturating_add(bytes);
    }

    /// How far a TCP segment took its sender's sequence numbers, without SYN and FIN; `None` for the sender's first.
    fn sequence_bytes(&self, before: Option<State>, own: usize, flags: u8) -> Option<u64> {
        let had = before?.end_of(own)?;
        let advanced = i64::from(self.tracked.end_of(own)?.wrapping_sub(had).cast_signed());
        let control = i64::from(flags & tcp_flags::FIN != 0) + i64::from(flags & tcp_flags::SYN != 0);
        Some((advanced - control).max(0).unsigned_abs())
    }

    fn note_tcp(&mut self, flags: u8, has_payload: bool, side: Side) {
        let has = |flag: u8| flags & flag != 0;
        let is_pure_ack = has(tcp_flags::ACK) && !has_payload;
        let letters = [
            (has(tcp_flags::SYN) && !has(tcp_flags::ACK), Letter::Syn),
            (has(tcp_flags::SYN) && has(tcp_flags::ACK), Letter::SynAck),
            (is_pure_ack && !has(tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST), Letter::Ack),
            (has_payload, Letter::Data),
            (has(tcp_flags::FIN), Letter::Fin),
            (has(tcp_flags::RST), Letter::Rst),
        ];
        letters.into_iter().filter(|(is_it, _)| *is_it).for_each(|(_, letter)| self.note(letter, side));
    }

    /// Adds a letter to the history if this side has none of it.
    fn note(&mut self, letter: Letter, side: Side) {
        let bit = Marks::from_bits_retain(1 << letter.of_side(side));
        if self.marks.contains(bit) {
            return;
        }
        // 12 letters of four bits at most: 48.
        let written = (self.marks & Marks::LETTERS).bits().count_ones();
        self.marks.insert(bit);
        self.history |= u64::from(letter.of_side(side) + 1) << (4 * written);
    }

    pub(super) fn has(&self, letter: Letter, side: Side) -> bool {
        self.marks.bits() >> letter.of_side(side) & 1 != 0
    }
}
