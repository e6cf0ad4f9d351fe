//! Tests of what one direction of a connection tells of the other.

use super::*;

fn packet(flags: u8, ack: u32) -> Headers {
    Headers { protocol: protocol::TCP, tcp_flags: flags, ack, ..Headers::default() }
}

/// A SYN, its acknowledgement of a SYN that begins at 1,000, 100 bytes acknowledged, 50 and a FIN, and the end of that.
#[test]
fn acknowledgements_tell_what_answers_brought() {
    let (syn, ack, fin) = (tcp_flags::SYN, tcp_flags::ACK, tcp_flags::FIN | tcp_flags::ACK);
    let mut connection = Connection::default();
    let mut fills = [0; 6];
    for (number, headers) in
        [packet(syn, 0), packet(ack, 1_001), packet(ack, 1_101), packet(fin, 1_151), packet(ack, 1_152)]
            .iter()
            .enumerate()
    {
        connection.see(number, headers, &mut fills);
    }
    assert_eq!(fills, [1_000, 100, 50, 0, 0, 0]);
    assert_eq!(connection.last, Some((4, 1_152, false)));
    assert!(connection.begun.is_empty());
}

/// What neither opens nor acknowledges tells nothing; another SYN begins anew.
#[test]
fn a_syn_begins_anew_and_a_reset_tells_nothing() {
    let mut connection = Connection::default();
    let mut fills = [0; 4];
    connection.see(0, &packet(tcp_flags::ACK, 500), &mut fills);
    connection.see(1, &packet(tcp_flags::RST, 900), &mut fills);
    assert_eq!(connection.last, Some((0, 500, false)));
    connection.see(2, &packet(tcp_flags::SYN, 0), &mut fills);
    assert_eq!((connection.last, connection.begun.as_slice()), (None, &[2][..]));
    connection.see(3, &packet(tcp_flags::ACK | tcp_flags::PSH, 8_001), &mut fills);
    assert_eq!(fills, [0, 0, 8_000, 0]);
}
