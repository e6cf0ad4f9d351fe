//! What a chain file says of ends that are fixed: port forwards, and addresses that stand for one host each.

use core::net::{IpAddr, Ipv4Addr};
use core::str::FromStr;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nf::{End, FixedEnd, FixedEnds, OptionError};
use wire::{Addr, protocol};

use super::options::{Options, Sides};

/// The most port forwards, and the most addresses with a host each.
pub(super) const FIXED_MAX: usize = 4_096;

const FORWARD_FORM: &str = "\"tcp 203.0.113.1:443 to 10.0.0.5:8443\"";
const ONE_TO_ONE_FORM: &str = "\"203.0.113.9 to 10.0.0.9\"";

/// All fixed ends that the options name. `sides` are those without them.
pub(super) fn fixed_ends(options: &Options, sides: &Sides) -> Result<FixedEnds, OptionError> {
    let parsed = |option, texts: &[String], parse: fn(&str, &Sides) -> Result<FixedEnd, String>| {
        if texts.len() > FIXED_MAX {
            let message = format!("has {} entries; at most {FIXED_MAX} are possible", texts.len());
            return Err(OptionError { option, message });
        }
        let parse = |text: &String| {
            parse(text, sides)
                .map_err(|what| OptionError { option, message: format!("has \"{text}\", {what}") })
        };
        texts.iter().map(parse).collect::<Result<Vec<_>, _>>()
    };
    let forwards = parsed("forwards", &options.forwards, forward)?;
    let hosts = parsed("one_to_one", &options.one_to_one, one_to_one)?;
    refuse_twice("one_to_one", &hosts)?;
    refuse_twice("forwards", &forwards)?;
    let is_whole = |forward: &&FixedEnd| hosts.iter().any(|host| host.inside.addr == forward.inside.addr);
    if let Some(forward) = forwards.iter().find(is_whole) {
        let host = IpAddr::from(forward.inside.addr);
        return Err(OptionError {
            option: "forwards",
            message: format!(
                "has {} to {host}, which has an external address of its own (`one_to_one`): its answers would leave \
                 with the wrong one of the two; take it out of one of them",
                end_text(&forward.external)
            ),
        });
    }
    Ok(FixedEnds::new(forwards.into_iter().chain(hosts)))
}

/// `PROTOCOL ADDRESS:PORT to ADDRESS:PORT`.
fn forward(text: &str, sides: &Sides) -> Result<FixedEnd, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [protocol, external, "to", inside] = words[..] else {
        return Err(format!("which is no forward; write one like {FORWARD_FORM}"));
    };
    let protocol = match protocol {
        "tcp" => protocol::TCP,
        "udp" => protocol::UDP,
        other => {
            return Err(format!(
                "and \"{other}\" has no ports that are forwarded; begin with \"tcp\" or \"udp\", or give the host an \
                 address of its own in `one_to_one`"
            ));
        }
    };
    let end = |text: &str| {
        let (addr, port) = text.rsplit_once(':').ok_or_else(|| {
            format!("and \"{text}\" has no port; write an address and a port, such as \"203.0.113.1:443\"")
        })?;
        let addr = address(addr)?;
        match u16::from_str(port) {
            Ok(port @ 1..) => Ok((addr, port)),
            _ => Err(format!("and \"{port}\" is no port; ports are 1 to 65535")),
        }
    };
    let ((external, external_port), (inside, inside_port)) = (end(external)?, end(inside)?);
    if sides.external(external.octets()).is_none() {
        return Err(format!("and {external} is none of `external`; add it there"));
    }
    is_inside(inside, sides)?;
    let end = |addr: Ipv4Addr, port| End { addr: Addr::v4(addr.octets()), port: Some((protocol, port)) };
    Ok(FixedEnd { external: end(external, external_port), inside: end(inside, inside_port) })
}

/// `ADDRESS to ADDRESS`.
fn one_to_one(text: &str, sides: &Sides) -> Result<FixedEnd, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [external, "to", inside] = words[..] else {
        return Err(format!("which is no pair of addresses; write one like {ONE_TO_ONE_FORM}"));
    };
    let (external, inside) = (address(external)?, address(inside)?);
    let octets = external.octets();
    if external.is_unspecified()
        || external.is_multicast()
        || external.is_broadcast()
        || external.is_loopback()
    {
        return Err(format!("and no answer comes to {external}; name a unicast address"));
    }
    if sides.external(octets).is_some() {
        return Err(format!(
            "and {external} is one of `external`, whose ports others get; take it out there, or write `forwards`"
        ));
    }
    if sides.is_inside(octets) {
        return Err(format!(
            "and {external} is inside; name an address of the outside first, such as {ONE_TO_ONE_FORM}"
        ));
    }
    is_inside(inside, sides)?;
    let end = |addr: Ipv4Addr| End { addr: Addr::v4(addr.octets()), port: None };
    Ok(FixedEnd { external: end(external), inside: end(inside) })
}

fn address(text: &str) -> Result<Ipv4Addr, String> {
    text.parse().map_err(|_| match text.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(_) => format!("and \"{text}\" is no IPv4 address; only IPv4 is translated"),
        Err(_) => format!("and \"{text}\" is no IPv4 address; write one like \"10.0.0.5\""),
    })
}

fn is_inside(addr: Ipv4Addr, sides: &Sides) -> Result<(), String> {
    match sides.is_inside(addr.octets()) {
        true => Ok(()),
        false => Err(format!("and {addr} is not inside; add it to `inside`, or name a host that is")),
    }
}

/// Each end has one counterpart: of two, an answer could not tell which one it is of.
fn refuse_twice(option: &'static str, ends: &[FixedEnd]) -> Result<(), OptionError> {
    let twice = |end: fn(&FixedEnd) -> End| {
        let mut all: Vec<End> = ends.iter().map(end).collect();
        all.sort_unstable();
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| end_text(&pair[0]))
    };
    if let Some(end) = twice(|fixed| fixed.external) {
        let message = format!("has {end} twice; one host gets what is sent there");
        return Err(OptionError { option, message });
    }
    if let Some(end) = twice(|fixed| fixed.inside) {
        let message = format!(
            "leads to {end} from two external ends, and its answers could leave with one of them alone; give it a \
             second port or address inside"
        );
        return Err(OptionError { option, message });
    }
    Ok(())
}

/// `tcp 203.0.113.1:443`, or the address alone.
fn end_text(end: &End) -> String {
    let addr = IpAddr::from(end.addr);
    match end.port {
        Some((protocol::TCP, port)) => format!("tcp {addr}:{port}"),
        Some((_, port)) => format!("udp {addr}:{port}"),
        None => addr.to_string(),
    }
}
