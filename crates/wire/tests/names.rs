//! What things are called and numbered, for reports, options and files.

use std::collections::BTreeSet;
use std::net::IpAddr;

use wire::{Addr, Edits, Fields, LinkType, Malformed, VlanEdit};

/// A reason has the name of its variant, and its name says which kind it is of.
#[test]
fn reasons_are_called_what_they_are() {
    for reason in Malformed::ALL {
        let name = reason.name();
        let words = name.split('-').map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_uppercase() + rest
        });
        assert_eq!(words.collect::<String>(), format!("{reason:?}"));
        assert_eq!(reason.is_of_checksums(), name.ends_with("-checksum"), "{name}");
        let is_of_fragments = name.starts_with("fragment-") || name == "too-many-fragments";
        assert_eq!(reason.is_of_datagrams(), is_of_fragments, "{name}");
    }
}

#[test]
fn fields_have_names_of_their_own() {
    let names: BTreeSet<_> = Fields::all().iter().flat_map(Fields::names).collect();
    assert_eq!(names.len(), Fields::all().iter().count());
    assert_eq!(Fields::PORTS.names().collect::<Vec<_>>(), ["source port", "destination port"]);
}

/// <https://www.tcpdump.org/linktypes.html>
#[test]
fn links_have_their_numbers() {
    let known = [
        (0, LinkType::Null),
        (1, LinkType::Ethernet),
        (101, LinkType::RawIp),
        (108, LinkType::Loop),
        (113, LinkType::LinuxSll),
        (276, LinkType::LinuxSll2),
    ];
    for (number, link) in known {
        assert_eq!((LinkType::from_pcap(number), link.to_pcap()), (Some(link), number));
    }
    let also_raw = [12, 14, 228, 229];
    for number in 0..300 {
        let expected = known.iter().find(|(known, _)| *known == number).map(|(_, link)| *link);
        let raw = also_raw.contains(&number).then_some(LinkType::RawIp);
        assert_eq!(LinkType::from_pcap(number), expected.or(raw), "{number}");
    }
}

#[test]
fn addresses_are_written_and_read_as_they_are_elsewhere() {
    for text in ["192.0.2.1", "2001:db8::1", "::"] {
        let ip: IpAddr = text.parse().expect("an address");
        let addr = Addr::from(ip);
        assert_eq!(
            (IpAddr::from(addr), addr.to_string(), format!("{addr:?}")),
            (ip, text.into(), text.into())
        );
        assert_eq!(addr.to_v4().is_some(), ip.is_ipv4());
    }
    assert_eq!(Addr::v4([192, 0, 2, 1]).to_v4(), Some([192, 0, 2, 1]));
    assert_eq!(Addr::v4([192, 0, 2, 1]).last4(), [192, 0, 2, 1]);
}

/// Edits are what they set: they are shown so, compared so, and undone to what they were.
#[test]
fn edits_are_what_they_set() {
    let mut edits = Edits::NONE;
    assert_eq!(
        (format!("{edits:?}"), edits.is_empty(), edits == Edits::default()),
        ("Edits".into(), true, true)
    );
    let empty = edits.mark();
    edits.set_src(Addr::v4([192, 0, 2, 1]));
    edits.set_vlan(VlanEdit::Push(7));
    let marked = (edits, edits.mark());
    edits.set_dst(Addr::v4([192, 0, 2, 2]));
    edits.set_src_port(1);
    edits.set_dst_port(2);
    edits.set_ttl(3);
    edits.set_tos(4);
    edits.set_src_mac([5; 6]);
    edits.set_dst_mac([6; 6]);
    assert_eq!(
        format!("{edits:?}"),
        "Edits { src: 192.0.2.1, dst: 192.0.2.2, src_port: 1, dst_port: 2, ttl: 3, tos: 4, vlan: Push(7), \
         src_mac: [5, 5, 5, 5, 5, 5], dst_mac: [6, 6, 6, 6, 6, 6] }"
    );
    assert_eq!((edits.src_mac(), edits.dst_mac()), (Some([5; 6]), Some([6; 6])));
    assert_ne!(edits, marked.0);
    edits.undo_to(&marked.1);
    assert_eq!((edits, edits.fields()), (marked.0, Fields::SRC_ADDR | Fields::VLAN));
    assert_eq!((edits.src_mac(), edits.dst_mac()), (None, None));
    edits.undo_to(&empty);
    assert!(edits.is_empty() && edits == Edits::NONE);
    edits.set_ttl(3);
    edits.clear();
    assert!(edits.fields().is_empty() && edits == Edits::NONE);
}
