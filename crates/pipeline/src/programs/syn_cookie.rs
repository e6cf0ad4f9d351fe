//! A program against SYN floods, with cookies.

use io::capture::Record;
use nf::hash_bytes;
use wire::tcp_flags::{ACK, SYN};

use super::fields::{Fields, field, fields};
use crate::program::{Consistency, Program, TableSpec};
use crate::trace::Parser;

/// Detects and mitigates SYN floods with cookies, in three stages: RAPID §6.4.
///
/// Stage 0 looks the flow up in an access list. Stage 1 notes its SYNs in a Bloom filter, an atom. Stage 2
/// answers a first SYN with a cookie; a second one blocks the flow, an ACK with the right cookie admits it.
#[derive(Clone, Debug)]
pub struct SynCookie {
    tables: [TableSpec; 2],
    bits: u64,
}

const UNKNOWN: u64 = 0;
const ADMITTED: u64 = 1;
const BLOCKED: u64 = 2;

const ANSWERED: u64 = 2;

const ACCESS: usize = 0;

impl SynCookie {
    /// With a filter of 2^`bits_log` bits.
    pub fn new(consistency: Consistency, bits_log: u32) -> SynCookie {
        let access = TableSpec { consistency, ..TableSpec::new("access", 0, 2) };
        let bits = 1 << bits_log;
        let seen = TableSpec { size: bits as usize, ..TableSpec::new("seen", 1, 1) };
        SynCookie { tables: [access, seen], bits }
    }

    fn cookie(phv: &Fields) -> u64 {
        hash_bytes(&phv[field::FLOW].to_le_bytes(), 1) & 0xffff_ffff
    }
}

impl Program for SynCookie {
    type Phv = Fields;
    type State = u64;

    fn name(&self) -> &str {
        "syn-cookie"
    }

    fn stages(&self) -> usize {
        3
    }

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn key(&self, table: usize, phv: &Fields) -> Option<u64> {
        let flow = phv[field::FLOW];
        match table {
            ACCESS => Some(flow),
            // What the filter is asked must not depend on the access list: see docs/rapid.md.
            _ => (phv[field::FLAGS] & u64::from(SYN | ACK) == u64::from(SYN)).then_some(flow % self.bits),
        }
    }

    fn read(&self, table: usize, state: &u64, phv: &mut Fields) {
        match table {
            ACCESS => phv[field::STATE] = *state,
            _ => phv[field::SECOND] = *state,
        }
    }

    fn step(&self, stage: usize, phv: &mut Fields) {
        if stage < 2 {
            return;
        }
        let (is_syn, is_ack) =
            (phv[field::FLAGS] & u64::from(SYN) != 0, phv[field::FLAGS] & u64::from(ACK) != 0);
        let right_cookie = phv[field::ACK] == SynCookie::cookie(phv).wrapping_add(1) & 0xffff_ffff;
        (phv[field::NEXT], phv[field::OUTPUT]) = match phv[field::STATE] {
            ADMITTED => (ADMITTED, 1),
            BLOCKED => (BLOCKED, 0),
            _ if is_syn && !is_ack && phv[field::SECOND] == 0 => (UNKNOWN, ANSWERED),
            _ if is_syn && !is_ack => (BLOCKED, 0),
            _ if is_ack && right_cookie => (ADMITTED, 1),
            _ => (UNKNOWN, 0),
        };
    }

    fn write(&self, table: usize, phv: &Fields) -> Option<u64> {
        match table {
            ACCESS => Some(phv[field::NEXT]),
            _ => Some(1),
        }
    }

    fn output(&self, phv: &Fields) -> u64 {
        phv[field::OUTPUT]
    }
}

impl Parser for SynCookie {
    fn parse(&self, record: &Record<'_>) -> Fields {
        fields(record)
    }
}
