//! Tests that models make the bytes that they always made, with the right checksums.

use super::*;

/// A change here is a change of what benchmarks measured: say so in the changelog.
#[test]
fn bytes_stay_what_they_are() {
    let digest = |text: &str| {
        let mut digest = Digest::default();
        model(text).generate(|time_ns, frame| digest.packet(time_ns, frame));
        digest.to_string()
    };
    let golden = [
        ("uniform:packets=2000,flows=100", "652eea199c34031b"),
        ("zipf:packets=2000,flows=100,a=1.1", "3d8105c515a467e1"),
        ("elephant:packets=2000,flows=100,share=0.4", "61ea0c4d114d1436"),
        ("datacenter:packets=2000,flows=20", "b0025c8f3f432127"),
        ("backbone:packets=2000", "64b752e036436dbe"),
        ("university:packets=2000,flows=50", "b46daa9d7a9c5821"),
        ("single-flow:packets=2000", "f55566dfa2276512"),
        ("single-flow:packets=2000,one-way=true", "0b8dd71559fe6aab"),
        ("syn-flood:packets=2000,legit=0.3", "353b204d763d9a7f"),
        ("port-scan:packets=2000", "ee470740ee44aa49"),
        (
            "university:packets=2000,flows=50,burst=4,ipv6-share=0.5,sizes=imix,seed=9,concurrent=8",
            "439940929ef211e1",
        ),
    ];
    let found = golden.map(|(text, _)| (text, digest(text)));
    assert_eq!(found.each_ref().map(|(text, digest)| (*text, digest.as_str())), golden);
}

#[test]
fn another_seed_gives_other_bytes() {
    for name in Kind::NAMES {
        let [one, same, other] = [1, 1, 2].map(|seed| packets(&format!("{name}:packets=500,seed={seed}")));
        assert!(one == same, "{name}");
        assert!(one != other, "{name}");
    }
}

/// The Internet checksum over a transport header, its payload and the addresses, which is 0 if it is right.
fn transport_checksum(frame: &[u8], headers: &Headers) -> u16 {
    let ip = usize::from(headers.l3_offset);
    let end = ip + usize::from(headers.l3_len);
    let addrs = if frame[ip] >> 4 == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
    let segment = &frame[usize::from(headers.l4_offset)..end];
    let words = |bytes: &[u8]| {
        bytes
            .chunks(2)
            .map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |low| u64::from(*low)))
            .sum::<u64>()
    };
    fold(words(&frame[addrs]) + words(segment) + u64::from(headers.protocol) + segment.len() as u64)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn checksums_are_right() {
    for name in Kind::NAMES {
        for share in ["0", "1"] {
            let text = format!("{name}:packets=300,sizes=75+1001,ipv6-share={share}");
            for (_, mut frame) in packets(&text) {
                let headers = parse(&frame);
                assert_eq!(transport_checksum(&frame, &headers), 0, "{text}");
                let ip = usize::from(headers.l3_offset);
                if share == "0" {
                    let words = frame[ip..ip + 20].chunks(2);
                    assert_eq!(fold(words.map(|word| u64::from(word[0]) << 8 | u64::from(word[1])).sum()), 0);
                }
                // The check sees a bit that is wrong.
                frame[usize::from(headers.l4_offset)] ^= 1;
                assert_ne!(transport_checksum(&frame, &headers), 0);
            }
        }
    }
}
