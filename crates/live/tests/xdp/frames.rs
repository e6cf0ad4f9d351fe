//! Frames of all shapes, for tests of programs that read headers.

/// Numbers that look random, and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// An address: often of those that chains in tests have inside, or translate to.
fn v4(numbers: &mut Numbers) -> Vec<u8> {
    let mut address = numbers.bytes(4);
    match numbers.below(6) {
        0 | 1 => address[..3].copy_from_slice(&[10, 0, 0]),
        2 => address = vec![203, 0, 113, numbers.below(3) as u8],
        3 => address[..2].copy_from_slice(&[192, 168]),
        _ => {}
    }
    address
}

/// What stands behind an IP header.
fn payload(numbers: &mut Numbers, protocol: u8, destination: &[u8]) -> Vec<u8> {
    match protocol {
        6 => {
            let words = numbers.below(11);
            let mut header = numbers.bytes(20 + 4 * words);
            header[12] = (header.len() as u8 / 4) << 4;
            header
        }
        17 => {
            let data = numbers.below(30);
            let mut header = numbers.bytes(8 + data);
            header[4..6].copy_from_slice(&(8 + data as u16).to_be_bytes());
            header
        }
        // A query, an error that quotes a packet, or something else.
        1 => {
            let kind = numbers.one_of(&[0, 3, 4, 5, 8, 11, 12, 13, 14, 200]);
            let mut message = [vec![kind], numbers.bytes(7)].concat();
            let quoted = numbers.one_of(&[6, 17, 1, 47]);
            let mut quote =
                [&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, quoted, 0, 0][..], destination, &numbers.bytes(4)]
                    .concat();
            quote.resize(20, 0);
            if quoted == 1 {
                quote.push(numbers.one_of(&[0, 3, 8, 13, 14]));
            }
            quote.extend(numbers.bytes(8));
            message.extend(quote);
            message
        }
        // The same of IPv6.
        58 if destination.len() == 16 => {
            let kind = numbers.one_of(&[1, 2, 3, 4, 5, 128, 129, 135]);
            let mut message = [vec![kind], numbers.bytes(7)].concat();
            let quoted = numbers.one_of(&[6, 17, 58, 44]);
            message.extend([0x60, 0, 0, 0, 0, 40, quoted, 64]);
            message.extend([destination, &numbers.bytes(16)].concat());
            let behind = numbers.one_of(&[4, 8, 20]);
            message.extend(numbers.bytes(behind));
            message
        }
        _ => numbers.bytes(numbers.0 as usize % 24),
    }
}

fn ipv4(numbers: &mut Numbers) -> Vec<u8> {
    let protocol = numbers.one_of(&[6, 6, 17, 17, 1, 1, 132, 33, 47, 58, 4]);
    let words = numbers.one_of(&[5, 5, 5, 6, 15]);
    let destination = v4(numbers);
    let rest = payload(numbers, protocol, &destination);
    let fragment = numbers.one_of(&[0, 0, 0, 0x4000, 0x2000, 0x2005, 7]);
    let mut packet = vec![0x40 | words, 0];
    packet.extend(((usize::from(words) * 4 + rest.len()) as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(u16::to_be_bytes(fragment));
    packet.extend([64, protocol, 0, 0]);
    packet.extend(v4(numbers));
    packet.extend(destination);
    packet.extend(numbers.bytes((usize::from(words) - 5) * 4));
    packet.extend(rest);
    packet
}

fn ipv6(numbers: &mut Numbers) -> Vec<u8> {
    const EXTENSIONS: [u8; 8] = [0, 43, 60, 135, 139, 140, 44, 51];
    let protocol = numbers.one_of(&[6, 6, 17, 17, 58, 1, 132, 33, 59]);
    let count = numbers.one_of(&[0, 0, 0, 1, 2, 7, 8, 9]);
    let kinds: Vec<u8> = (0..count).map(|_| numbers.one_of(&EXTENSIONS)).collect();
    let mut rest = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let next = kinds.get(at + 1).copied().unwrap_or(protocol);
        let units = numbers.one_of(&[0_u8, 0, 1, 3]);
        let len = match kind {
            44 => 8,
            51 => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        let mut header = numbers.bytes(len);
        (header[0], header[1]) = (next, units);
        if *kind == 44 {
            let offset = numbers.one_of(&[0_u16, 0, 1, 0xfff8, 80]);
            header[2..4].copy_from_slice(&offset.to_be_bytes());
        }
        rest.extend(header);
    }
    let mut address = || match numbers.below(12) {
        // An address of IPv4, put there by hand.
        0 => [&[0; 10][..], &[0xff; 2], &numbers.bytes(4)].concat(),
        _ => numbers.bytes(16),
    };
    let (source, destination) = (address(), address());
    rest.extend(payload(numbers, protocol, &destination));
    let len = numbers.one_of(&[rest.len() as u16, rest.len() as u16, rest.len() as u16, 0]);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([kinds.first().copied().unwrap_or(protocol), 64]);
    packet.extend([source, destination, rest].concat());
    packet
}

/// Frames of all shapes: whole ones, and some that were cut, lengthened, or changed in a byte or two.
pub fn made_up(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut numbers = Numbers(seed);
    let mut frame = || {
        let mut frame = numbers.bytes(12);
        for _ in 0..numbers.one_of(&[0, 0, 0, 1, 2, 3]) {
            let tag: u16 = numbers.one_of(&[0x8100, 0x88a8, 0x9100]);
            frame.extend(tag.to_be_bytes());
            frame.extend(numbers.bytes(2));
        }
        let (kind, packet): (u16, Vec<u8>) = match numbers.below(12) {
            0 => (0x0806, numbers.bytes(28)),
            1 => (0x0800, ipv6(&mut numbers)),
            2 => (0x86dd, ipv4(&mut numbers)),
            3..=7 => (0x0800, ipv4(&mut numbers)),
            _ => (0x86dd, ipv6(&mut numbers)),
        };
        frame.extend(kind.to_be_bytes());
        frame.extend(packet);
        match numbers.below(8) {
            0 => frame.truncate(14 + numbers.below(frame.len() - 13)),
            // What a short frame is padded with.
            1 => frame.extend(numbers.bytes(numbers.0 as usize % 40)),
            2 | 3 => {
                for _ in 0..1 + numbers.below(3) {
                    let at = 12 + numbers.below((frame.len() - 12).min(80));
                    frame[at] = numbers.one_of(&[0, 1, 5, 0x45, 0x46, 0x60, 6, 17, 44, 60, 0x7f, 0x80, 0xff]);
                }
            }
            _ => {}
        }
        frame
    };
    (0..count).map(|_| frame()).collect()
}
