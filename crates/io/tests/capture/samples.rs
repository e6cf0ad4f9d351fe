//! Small captures of every format, written out by hand, with what they hold.

use wire::LinkType;

use crate::packed::{gzip, zstd};
use crate::{Owned, hex};

/// A capture, what it holds, and where it may be cut without cutting a part of it.
pub struct Sample {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    pub records: Vec<Owned>,
    /// Where each part ends, and how many packets are whole by then. The first is the file header.
    pub borders: Vec<(usize, usize)>,
}

/// A part of a capture in hex; with the packet that it holds.
type Part<'a> = (&'a str, Option<(u64, u32, LinkType, &'a [u8])>);

impl Sample {
    fn new(name: &'static str, parts: &[Part]) -> Sample {
        let mut sample = Sample { name, bytes: Vec::new(), records: Vec::new(), borders: Vec::new() };
        for (part, packet) in parts {
            sample.bytes.extend(hex(part));
            if let Some((time_ns, wire_len, link, data)) = *packet {
                sample.records.push(Owned { time_ns, wire_len, link, data: data.to_vec() });
            }
            sample.borders.push((sample.bytes.len(), sample.records.len()));
        }
        sample
    }
}

pub fn all() -> [Sample; 4] {
    [pcap_micro_little(), pcap_nano_big(), pcapng_blocks(), pcapng_sections()]
}

pub fn pcap_micro_little() -> Sample {
    use LinkType::Ethernet;
    Sample::new(
        "pcap, microseconds, little-endian",
        &[
            (
                "d4c3b2a1 0200 0400 00000000 00000000 ; magic, version 2.4, reserved
                 00000400 01000000                    ; at most 262144 bytes a packet, Ethernet",
                None,
            ),
            (
                "01000000 02000000 04000000 40000000 aabbccdd ; 1.000002 s, 4 of 64 bytes",
                Some((1_000_002_000, 64, Ethernet, b"\xaa\xbb\xcc\xdd")),
            ),
            (
                "02000000 3f420f00 00000000 00000000 ; 2.999999 s, no bytes",
                Some((2_999_999_000, 0, Ethernet, b"")),
            ),
            (
                "03000000 00000000 03000000 01000000 010203 ; 3 s, 3 bytes, a length on the wire of 1",
                Some((3_000_000_000, 1, Ethernet, b"\x01")),
            ),
        ],
    )
}

pub fn pcap_nano_big() -> Sample {
    use LinkType::LinuxSll;
    Sample::new(
        "pcap, nanoseconds, big-endian",
        &[
            ("a1b23c4d 0002 0004 00000000 00000000 00000002 00000071 ; at most 2 bytes, Linux cooked", None),
            (
                "00000001 00000002 00000003 00000003 0a0b0c ; 1.000000002 s, more bytes than announced",
                Some((1_000_000_002, 3, LinuxSll, b"\x0a\x0b\x0c")),
            ),
            (
                "ffffffff 3b9ac9ff 00000001 00000009 ff ; the last nanosecond that pcap can hold",
                Some((4_294_967_295_999_999_999, 9, LinuxSll, b"\xff")),
            ),
        ],
    )
}

/// Every kind of block, three interfaces of different link types and clocks.
pub fn pcapng_blocks() -> Sample {
    Sample::new(
        "pcapng, little-endian, every block",
        &[
            ("0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000", None),
            ("01000000 14000000 0100 0000 08000000 14000000 ; interface 0: Ethernet, at most 8 bytes", None),
            (
                "01000000 2c000000 6500 0000 00000000 ; interface 1: raw IP
                 0900 0100 8a000000                   ; if_tsresol: 2^-10 s
                 0e00 0800 ffffffffffffffff           ; if_tsoffset: -1 s
                 0000 0000 2c000000                   ; end of options",
                None,
            ),
            (
                "01000000 24000000 0000 0000 00000000 ; interface 2: BSD loopback
                 0200 0200 6c6f0000                   ; if_name: lo
                 0900 0100 09000000 24000000          ; if_tsresol: 10^-9 s; options without an end",
                None,
            ),
            ("04000000 10000000 00000000 10000000 ; name resolution, skipped", None),
            (
                "06000000 34000000 00000000 00000000 42420f00 ; enhanced packet, interface 0, 1.000002 s
                 05000000 3c000000 0102030405 000000          ; 5 of 60 bytes, padding
                 0200 0400 00000000 0000 0000 34000000        ; epb_flags, end of options",
                Some((1_000_002_000, 60, LinkType::Ethernet, b"\x01\x02\x03\x04\x05")),
            ),
            (
                "06000000 24000000 01000000 00000000 000e0000 ; interface 1, 3584/1024 - 1 = 2.5 s
                 04000000 04000000 45000014 24000000",
                Some((2_500_000_000, 4, LinkType::RawIp, b"\x45\x00\x00\x14")),
            ),
            (
                "02000000 24000000 0200 ffff 00000000 07286bee ; old packet, interface 2, 4.000000007 s
                 04000000 08000000 02000000 24000000",
                Some((4_000_000_007, 8, LinkType::Null, b"\x02\x00\x00\x00")),
            ),
            ("ad0b0000 14000000 ffffffff 00000000 14000000 ; a custom block, skipped", None),
            (
                "03000000 18000000 0c000000 0102030405060708 18000000 ; simple packet, 8 of 12 bytes",
                Some((4_000_000_007, 12, LinkType::Ethernet, b"\x01\x02\x03\x04\x05\x06\x07\x08")),
            ),
        ],
    )
}

/// Two sections of differing byte order; their interfaces are not each other's.
pub fn pcapng_sections() -> Sample {
    Sample::new(
        "pcapng, a big-endian and a little-endian section",
        &[
            ("0a0d0d0a 0000001c 1a2b3c4d 0001 0000 ffffffffffffffff 0000001c", None),
            ("00000001 00000014 0114 0000 00000000 00000014 ; Linux cooked v2", None),
            (
                "00000003 00000014 00000001 aa000000 00000014 ; simple packet, the first: no time",
                Some((0, 1, LinkType::LinuxSll2, b"\xaa")),
            ),
            (
                "00000006 00000024 00000000 00000001 00000000 00000003 00000003 61626300 00000024 ; 2^32 us",
                Some((4_294_967_296_000, 3, LinkType::LinuxSll2, b"abc")),
            ),
            ("0a0d0d0a 1c000000 4d3c2b1a 0100 0200 2800000000000000 1c000000 ; minor version 2", None),
            ("01000000 14000000 6c00 0000 00000000 14000000 ; OpenBSD loopback", None),
            (
                "03000000 14000000 02000000 bbcc0000 14000000",
                Some((4_294_967_296_000, 2, LinkType::Loop, b"\xbb\xcc")),
            ),
        ],
    )
}

/// Not a test: writes the samples, plain and packed, where the fuzzer looks for its seeds.
#[test]
#[ignore = "writes files: ./x fuzz runs it"]
fn seeds() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/capture_read");
    std::fs::create_dir_all(&dir).unwrap();
    for (number, sample) in all().into_iter().enumerate() {
        let packed = [("gz", gzip(&sample.bytes)), ("zst", zstd(&sample.bytes)), ("plain", sample.bytes)];
        for (ending, bytes) in packed {
            std::fs::write(dir.join(format!("sample{number}.{ending}")), bytes).unwrap();
        }
    }
}
