//! Generated packets for trials: few hosts, few ports, so that packets meet each other's state.

use crate::trial::Packet;

/// One of some values.
fn one<T: Copy, const N: usize>(draw: &mut fastrand::Rng, of: [T; N]) -> T {
    of[draw.usize(..N)]
}

/// Frames that the examples' parsers know, and some that they do not, from few hosts, cut short now and then.
pub fn random_packets(seed: u64, many: usize) -> Vec<Packet> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let mut time_ns = 1_000_000_000;
    let mut packet = || {
        time_ns += draw.u64(0..400_000);
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, draw.u8(1..4)];
        let ether_type = if draw.u8(..) < 12 { 0x88b5_u16 } else { 0x0800 };
        bytes.extend(ether_type.to_be_bytes());
        let protocol = one(&mut draw, [6_u8, 6, 6, 6, 17, 17, 1]);
        let length = draw.u16(28..200);
        bytes.extend([if draw.u8(..) < 8 { 0x46 } else { 0x45 }, draw.u8(..)]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([draw.u8(..), draw.u8(..), 0x40, if draw.u8(..) < 8 { 1 } else { 0 }, 64, protocol]);
        // A checksum that is wrong, which the examples mend.
        bytes.extend([draw.u8(..), draw.u8(..)]);
        let hosts = [draw.u8(1..6), draw.u8(1..3)];
        bytes.extend([192, 0, 2, hosts[0], 198, 51, 100, hosts[1]]);
        bytes.extend((40_000 + draw.u16(0..3)).to_be_bytes());
        bytes.extend(one(&mut draw, [22_u16, 7001, 7002, 7003, 80]).to_be_bytes());
        bytes.extend((0..8).map(|_| draw.u8(..)));
        bytes.push(0x50);
        bytes.push(one(&mut draw, [2_u8, 0x12, 0x10, 4, 1]));
        bytes.extend((0..6).map(|_| draw.u8(..)));
        bytes.resize(bytes.len() + draw.usize(0..80), 0xa5);
        if draw.u8(..) < 10 {
            bytes.truncate(draw.usize(14..bytes.len()));
        }
        Packet { time_ns, port: draw.u16(0..2), bytes }
    };
    (0..many).map(|_| packet()).collect()
}

/// A TCP packet of 60 bytes from each of so many sources.
pub fn flows(many: u16) -> Vec<Vec<u8>> {
    let frame = |source: u16| {
        let [high, low] = source.to_be_bytes();
        let mut bytes =
            vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6, 0, 0];
        bytes.extend([198, 18, high, low, 198, 51, 100, 1, 0x9c, 0x40, 0x1b, 0x59]);
        bytes.resize(60, 0);
        bytes[47] = 0x10;
        bytes
    };
    (0..many).map(frame).collect()
}
