//! Parses link headers and VLAN tags.

use super::bytes::be16;
use crate::{Headers, LinkType, Malformed, Marks};

/// What the link header says follows it.
pub(super) enum Network {
    Ipv4,
    Ipv6,
    NotIp,
}

/// Parses the link header and its VLAN tags; `headers.l3_offset` is how far it got.
///
/// ```text
/// Ethernet   0 destination | 6 source | 12 EtherType                                       | 14
/// VLAN tag   0 TCI | 2 EtherType                                                           |  4
/// SLL        0 packet type | 2 ARPHRD | 4 address length | 6 address | 14 EtherType        | 16
/// SLL2       0 EtherType | 2 - | 4 interface | 8 ARPHRD | 10 type | 11 length | 12 address | 20
/// Null, Loop 0 address family                                                              |  4
/// ```
pub(super) fn parse_link(link: LinkType, frame: &[u8], headers: &mut Headers) -> Result<Network, Malformed> {
    match link {
        LinkType::Ethernet => {
            let header = link_header::<14>(frame, headers)?;
            parse_tags(frame, be16(header, 12), headers)
        }
        LinkType::LinuxSll => {
            let header = link_header::<16>(frame, headers)?;
            parse_cooked(frame, be16(header, 2), be16(header, 14), headers)
        }
        LinkType::LinuxSll2 => {
            let header = link_header::<20>(frame, headers)?;
            parse_cooked(frame, be16(header, 8), be16(header, 0), headers)
        }
        LinkType::Null => {
            // Recorded in the byte order of a host that is not known here; families are small numbers.
            let family = *link_header::<4>(frame, headers)?;
            Ok(network_of_family(u32::from_be_bytes(family).min(u32::from_le_bytes(family))))
        }
        LinkType::Loop => Ok(network_of_family(u32::from_be_bytes(*link_header::<4>(frame, headers)?))),
        LinkType::RawIp => match frame.first().ok_or(Malformed::LinkTruncated)? >> 4 {
            4 => Ok(Network::Ipv4),
            6 => Ok(Network::Ipv6),
            _ => Err(Malformed::IpVersion),
        },
    }
}

fn link_header<'a, const LEN: usize>(
    frame: &'a [u8],
    headers: &mut Headers,
) -> Result<&'a [u8; LEN], Malformed> {
    let header = frame.first_chunk::<LEN>().ok_or(Malformed::LinkTruncated)?;
    headers.l3_offset = LEN as u8;
    Ok(header)
}

/// A cooked header says "EtherType" also of what has none: there the hardware type decides
/// (tcpdump.org, LINKTYPE_LINUX_SLL).
fn parse_cooked(
    frame: &[u8],
    hardware: u16,
    ethertype: u16,
    headers: &mut Headers,
) -> Result<Network, Malformed> {
    const ARPHRD_FRAD: u16 = 770;
    const ARPHRD_IEEE80211_RADIOTAP: u16 = 803;
    const ARPHRD_NETLINK: u16 = 824;
    match hardware {
        ARPHRD_FRAD | ARPHRD_IEEE80211_RADIOTAP | ARPHRD_NETLINK => Ok(Network::NotIp),
        _ => parse_tags(frame, ethertype, headers),
    }
}

/// Skips VLAN tags, at most two. Below 0x600 an EtherType is the length of an 802.3 frame, which
/// like every unknown EtherType is not IP.
fn parse_tags(frame: &[u8], mut ethertype: u16, headers: &mut Headers) -> Result<Network, Malformed> {
    if is_tag(ethertype) {
        (headers.vlan, ethertype) = parse_tag(frame, headers)?;
        headers.marks |= Marks::VLAN;
        if is_tag(ethertype) {
            (_, ethertype) = parse_tag(frame, headers)?;
        }
        if is_tag(ethertype) {
            return Err(Malformed::TooManyVlanTags);
        }
    }
    Ok(match ethertype {
        0x0800 => Network::Ipv4,
        0x86dd => Network::Ipv6,
        _ => Network::NotIp,
    })
}

/// 802.1Q, 802.1ad, and the number that was used for QinQ before 802.1ad.
fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}

/// The tag control information, and the EtherType after it.
fn parse_tag(frame: &[u8], headers: &mut Headers) -> Result<(u16, u16), Malformed> {
    let rest = frame.get(usize::from(headers.l3_offset)..).unwrap_or_default();
    let tag = rest.first_chunk::<4>().ok_or(Malformed::LinkTruncated)?;
    headers.l3_offset += 4;
    Ok((be16(tag, 0), be16(tag, 2)))
}

/// AF_INET is 2 everywhere; AF_INET6 is 10 on Linux, 24, 28 and 30 on NetBSD and OpenBSD, FreeBSD, Darwin.
fn network_of_family(family: u32) -> Network {
    match family {
        2 => Network::Ipv4,
        10 | 24 | 28 | 30 => Network::Ipv6,
        _ => Network::NotIp,
    }
}
