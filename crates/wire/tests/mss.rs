//! Lowering the maximum segment size of SYNs.

use wire::{Edits, LinkType, apply, internet_checksum, parse};

const IP: usize = 14;
const TCP: usize = 34;

/// A SYN with these options, checksums right.
fn frame(flags: u8, options: &[u8]) -> Vec<u8> {
    let tcp_len = 20 + options.len();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, (20 + tcp_len) as u8, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([10, 0, 0, 1, 192, 0, 2, 1]);
    frame.extend([0x9c, 0x40, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, (tcp_len as u8 / 4) << 4, flags]);
    frame.extend([0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(options);
    let sum = internet_checksum(&[&frame[IP..TCP]]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum);
    let sum = internet_checksum(&[&frame[IP + 12..IP + 20], &[0, 6, 0, tcp_len as u8], &frame[TCP..]]);
    frame[TCP + 16..TCP + 18].copy_from_slice(&sum);
    frame
}

fn options_after(most: u16, flags: u8, options: &[u8]) -> Vec<u8> {
    let mut bytes = frame(flags, options);
    let headers = parse(LinkType::Ethernet, &bytes, bytes.len() as u32);
    let mut edits = Edits::NONE;
    edits.lower_mss(most);
    let mut whole = 0..bytes.len();
    assert_eq!(apply(&edits, &headers, LinkType::Ethernet, &mut bytes, &mut whole), Ok(()));
    let options = bytes[TCP + 20..].to_vec();
    // As if it had been sent so.
    assert_eq!(bytes, frame(flags, &options));
    options
}

#[test]
fn a_syn_announces_no_more_and_its_checksum_is_right() {
    const SYN: u8 = 2;
    let golden: [(&[u8], &[u8]); 8] = [
        (&[2, 4, 5, 180], &[2, 4, 5, 120]), // 1460 becomes 1400
        (&[2, 4, 5, 120], &[2, 4, 5, 120]),
        (&[2, 4, 2, 24], &[2, 4, 2, 24]), // 536 stays
        (&[1, 2, 4, 0xff, 0xff, 3, 3, 7], &[1, 2, 4, 5, 120, 3, 3, 7]), // at an odd offset
        (&[4, 2, 1, 1, 2, 4, 35, 40], &[4, 2, 1, 1, 2, 4, 5, 120]),
        (&[0, 2, 4, 35, 40, 0, 0, 0], &[0, 2, 4, 35, 40, 0, 0, 0]), // behind the end
        (&[3, 0, 2, 4, 35, 40, 0, 0], &[3, 0, 2, 4, 35, 40, 0, 0]), // behind a wrong length
        (&[2, 3, 35, 0], &[2, 3, 35, 0]),                           // of another length
    ];
    for (before, after) in golden {
        assert_eq!(options_after(1400, SYN, before), after, "{before:?}");
        assert_eq!(options_after(1400, SYN | 16, before), after, "a SYN-ACK, {before:?}");
    }
    assert_eq!(options_after(1400, 16, &[2, 4, 5, 180]), [2, 4, 5, 180], "no SYN");
    assert!(options_after(1400, SYN, &[]).is_empty());
}

#[test]
fn of_two_edits_the_lower_one_holds() {
    let mut edits = Edits::NONE;
    assert_eq!(edits.mss(), None);
    [1400, 1300, 1460].into_iter().for_each(|mss| edits.lower_mss(mss));
    assert_eq!(edits.mss(), Some(1300));
    edits.clear();
    edits.lower_mss(1460);
    assert_eq!(edits.mss(), Some(1460));
}

/// Whatever the options are and wherever the capture ends, nothing but options and the checksum changes, and a second time nothing.
#[test]
fn any_options_are_taken() {
    let mut state = 9_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 40
    };
    let mut lowered = 0;
    for _ in 0..20_000 {
        let len = draw() as usize % 11 * 4;
        let options: Vec<u8> =
            (0..len).map(|_| if draw() % 4 == 0 { draw() as u8 } else { draw() as u8 % 6 }).collect();
        let whole = frame(2, &options);
        let cut = (draw() as usize % (whole.len() + 20)).min(whole.len());
        let headers = parse(LinkType::Ethernet, &whole[..cut], whole.len() as u32);
        let mut edits = Edits::NONE;
        edits.lower_mss(100);
        let mut once = whole[..cut].to_vec();
        apply(&edits, &headers, LinkType::Ethernet, &mut once, &mut (0..cut)).expect("room");
        let is_option = |at: usize| at >= TCP + 20 || (TCP + 16..TCP + 18).contains(&at);
        assert!((0..cut).all(|at| is_option(at) || whole[at] == once[at]), "{options:?}");
        if cut == whole.len() {
            assert_eq!(once, frame(2, &once[TCP + 20..]), "{options:?}");
        }
        lowered += usize::from(once != whole[..cut]);
        let mut twice = once.clone();
        apply(&edits, &headers, LinkType::Ethernet, &mut twice, &mut (0..cut)).expect("room");
        assert_eq!(once, twice);
    }
    assert!(lowered > 50, "{lowered}");
}
