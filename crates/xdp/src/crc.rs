//! CRCs with their bits reflected, by tables: without a loop or a branch, of which the verifier would walk each turn.

use p4::ir::{Algorithm, Program, StatementKind};

use crate::writer::Writer;

/// Each algorithm with its polynomial, and the C that takes one byte more.
const ALL: [(Algorithm, &str, u32); 2] =
    [(Algorithm::Crc32, "crc32", 0xedb8_8320), (Algorithm::Crc16, "crc16", 0xa001)];

/// Numbers in a line of a table.
const COLUMNS: usize = 8;

/// Writes the tables that a program needs, and what takes one byte more.
pub fn write(program: &Program, out: &mut Writer<'_>) {
    let mut used = Vec::new();
    let blocks = [&program.verify_checksum, &program.ingress, &program.egress, &program.compute_checksum];
    let states = program.parser.iter().map(|state| &state.body);
    for body in states.chain(blocks) {
        program.visit(body, &mut |kind| {
            if let StatementKind::Hash { algorithm, .. } | StatementKind::Checksum { algorithm, .. } = kind {
                used.push(*algorithm);
            }
        });
    }
    for (_, name, polynomial) in ALL.into_iter().filter(|(algorithm, ..)| used.contains(algorithm)) {
        out.line(format!("// One byte more of {name}, by the rest that each byte leaves."));
        out.line(format!("static const u32 {name}_rests[256] = {{"));
        let rests: Vec<String> = (0..256).map(|byte| format!("{:#x}", rest(byte, polynomial))).collect();
        rests.chunks(COLUMNS).for_each(|line| out.line(line.join(", ") + ","));
        out.line("};");
        out.line(format!("INLINE u64 {name}(u64 sum, u64 byte) {{"));
        out.line(format!("return {name}_rests[(sum ^ byte) & 0xff] ^ sum >> 8;"));
        out.end();
    }
}

fn rest(byte: u32, polynomial: u32) -> u32 {
    (0..8).fold(byte, |rest, _| rest >> 1 ^ if rest & 1 == 1 { polynomial } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of both algorithms, of the catalogue of CRCs: that of `123456789`.
    #[test]
    fn rests_give_the_check_values() {
        let crc = |start: u32, polynomial: u32| {
            b"123456789"
                .iter()
                .fold(start, |sum, byte| rest((sum ^ u32::from(*byte)) & 0xff, polynomial) ^ sum >> 8)
        };
        assert_eq!(!crc(!0, 0xedb8_8320), 0xcbf4_3926);
        assert_eq!(crc(0, 0xa001), 0xbb3d);
    }
}
