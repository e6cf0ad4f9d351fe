//! `limit` of nftables as a rate of a `firewall` rule.
//!
//! Both count packets in buckets of one arithmetic. A limit fits where one rule takes its place, since each has a bucket of its own, and
//! where an empty bucket closes: a rule that accepts up to a rate, or drops what is over it.

use serde_json::Value;
use wire::protocol;

use super::space::{Dim, Ranges, Reach, Region, Regions, TooMany, family};

/// A limit, as a rule of `firewall` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    is_over: bool,
    /// `rate 10/second burst 5`.
    text: String,
}

impl Limit {
    /// The limit that an expression is.
    ///
    /// # Errors
    /// Why it is none that `firewall` has.
    pub fn of(value: &Value) -> Result<Limit, String> {
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let Some(rate) = number("rate") else {
            return Err(
                "a limit by name counts for several rules; a rate of `firewall` is one rule's".to_owned()
            );
        };
        let unit = value.get("rate_unit").and_then(Value::as_str).unwrap_or("packets");
        if unit != "packets" {
            return Err(format!("a rate of `firewall` counts packets, not {unit}"));
        }
        let per = value.get("per").and_then(Value::as_str).unwrap_or("second");
        if !matches!(per, "second" | "minute" | "hour" | "day") {
            return Err(format!("`firewall` has no rate by {per}"));
        }
        // The kernel's, where nothing is said.
        let burst = number("burst").filter(|burst| *burst > 0).unwrap_or(5);
        let is_over = value.get("inv").and_then(Value::as_bool).unwrap_or(false);
        let over = if is_over { "over " } else { "" };
        Ok(Limit { is_over, text: format!("rate {over}{rate}/{per} burst {burst}") })
    }

    /// Whether fewer tokens never let more packets pass: where a rule accepts as long as there are some, or drops what finds none.
    pub fn closes(&self, accepts: bool) -> bool {
        accepts != self.is_over
    }

    /// The end of a rule.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Whether what is sure is all that there may be, but for packets of ICMP in IPv6, ICMPv6 in IPv4, and from one IP version to the other.
pub fn is_exact(packets: &Reach) -> Result<bool, TooMany> {
    let of = |dim, is_v6: bool| Region::all().with(dim, &family(is_v6));
    let icmp = |number: u8, is_v6: bool| {
        [Dim::Src, Dim::Dst].map(|dim| of(dim, is_v6).with(Dim::Protocol, &Ranges::one(number)))
    };
    let crossing = [false, true].map(|is_v6| of(Dim::Src, is_v6).with(Dim::Dst, &family(!is_v6)));
    let odd = [icmp(protocol::ICMP, true), icmp(protocol::ICMPV6, false), crossing].concat();
    Ok(packets.may.minus(&packets.sure)?.minus(&Regions::of(odd))?.is_empty())
}
