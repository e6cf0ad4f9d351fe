//! What is odd about an input, in sentences for people: `run`, `verify` and `inspect` say them with their reports.

use io::capture::{HeldStamps, Remarks, link_name};
use wire::{Malformed, RanBack};

use crate::executor::outcome::RunOutcome;

/// A stamp this far ahead of a later one is named: flows that were idle for less may have expired by it.
const FAR_NS: u64 = 60_000_000_000;

/// Less is in the JSON alone: captures from several queues are full of it.
const TOLD_NS: u64 = 1_000_000;

/// What is odd about an input.
#[derive(Clone, Debug, Default)]
pub struct Oddities {
    /// Packets that came.
    pub packets: u64,
    /// What the reader skipped, or could not take as it was.
    pub remarks: Remarks,
    /// How far time stamps ran back.
    pub ran_back: RanBack,
    /// Whether any packet is IP, or meant to be: what is malformed counts.
    pub has_ip: bool,
    /// Packets that count as malformed since they are IPv6 and one of their addresses stands for an IPv4 address.
    pub mapped: u64,
    /// Packets that were lost on purpose on the way to the cores.
    pub lost: u64,
}

impl Oddities {
    /// What was odd about the input of a run.
    pub fn of(outcome: &RunOutcome) -> Oddities {
        let mapped = Malformed::MappedAddress as usize - 1;
        Oddities {
            packets: outcome.packets,
            remarks: outcome.remarks.clone(),
            ran_back: outcome.ran_back,
            has_ip: outcome.has_ip,
            mapped: outcome.cores.iter().map(|(counters, _)| counters.malformed[mapped]).sum(),
            lost: outcome.history.as_ref().map_or(0, |history| history.lost),
        }
    }

    /// One sentence for each, without a full stop.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (number, packets) in &self.remarks.skipped {
            let name = link_name(*number);
            said.push(format!(
                "{} skipped: link type {number} ({name}) is not supported",
                counted(*packets, "packet was", "packets were")
            ));
        }
        if self.packets == 0 && self.lost > 0 {
            said.push("every packet was lost on the way, as --loss asks: none came to a core".to_owned());
        }
        if self.packets > 0 && !self.has_ip {
            said.push("no packet is IP: no function had any to work on, and all were passed on".to_owned());
        }
        if self.mapped > 0 {
            said.push(format!(
                "{} counted as malformed for an IPv4-mapped address (::ffff:a.b.c.d) in an IPv6 header, which must \
                 not be on a wire (RFC 6890)",
                counted(self.mapped, "packet is", "packets are")
            ));
        }
        if self.remarks.too_late > 0 {
            said.push(format!(
                "{} stamped later than the year 2554, where time ends here",
                counted(self.remarks.too_late, "packet is", "packets are")
            ));
        }
        if self.remarks.overlong > 0 {
            said.push(format!(
                "of {} the capture has more bytes than were on the wire: what is behind their end is left out",
                counted(self.remarks.overlong, "packet", "packets")
            ));
        }
        said.extend(self.stamps_held());
        said.extend(self.time_ran_back());
        said
    }

    fn stamps_held(&self) -> Option<String> {
        let HeldStamps { packets, furthest_ns, furthest } = self.remarks.held;
        let seconds = furthest_ns as f64 / 1e9;
        let held = counted(packets, "packet is", "packets are");
        (packets > 0).then(|| {
            format!(
                "{held} stamped more than a second ahead of those before and behind, packet {} by {seconds:.0} s: such a \
                 packet counts as of the one before it, the first as of the next",
                furthest + 1
            )
        })
    }

    fn time_ran_back(&self) -> Option<String> {
        let RanBack { packets, furthest_ns, ahead_seq } = self.ran_back;
        let seconds = furthest_ns as f64 / 1e9;
        match furthest_ns {
            ..TOLD_NS => None,
            TOLD_NS..FAR_NS => Some(format!(
                "{} captured before an earlier packet's time, by up to {seconds:.6} s; stamps never run back, so \
                 they count as of that time",
                counted(packets, "packet was", "packets were")
            )),
            FAR_NS.. => Some(format!(
                "packet {number} is stamped {seconds:.0} s later than a packet behind it; stamps never run back, so \
                 {} as of the later time, and flows that were idle for less have expired. Take that packet out if \
                 its stamp is damaged (`editcap IN OUT {number}`), or sort the capture (`reordercap IN OUT`)",
                counted(packets, "packet behind one like it counts", "packets behind one like it count"),
                number = ahead_seq + 1,
            )),
        }
    }
}

fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(oddities: &Oddities) -> String {
        oddities.sentences().join("\n")
    }

    #[test]
    fn an_ordinary_input_has_none() {
        let ran_back = RanBack { packets: 3, furthest_ns: 900_000, ahead_seq: 5 };
        assert_eq!(said(&Oddities { packets: 9, has_ip: true, ran_back, ..Oddities::default() }), "");
        assert_eq!(said(&Oddities::default()), "", "an empty input is said to be empty elsewhere");
    }

    #[test]
    fn what_the_reader_held_or_cut_is_said() {
        let held = HeldStamps { packets: 1, furthest_ns: 86_400_000_000_000, furthest: 5 };
        let remarks = Remarks { overlong: 2, held, ..Remarks::default() };
        let said = said(&Oddities { packets: 9, has_ip: true, remarks, ..Oddities::default() });
        assert!(said.contains("of 2 packets the capture has more bytes than were on the wire"), "{said}");
        assert!(said.contains("1 packet is stamped") && said.contains("packet 6 by 86400 s"), "{said}");
    }

    #[test]
    fn a_stamp_far_ahead_is_named_and_a_small_step_back_is_not() {
        let of = |furthest_ns, packets| {
            let ran_back = RanBack { packets, furthest_ns, ahead_seq: 41 };
            said(&Oddities { packets: 99, has_ip: true, ran_back, ..Oddities::default() })
        };
        assert!(of(2_000_000, 1).starts_with("1 packet was captured before"), "{}", of(2_000_000, 1));
        let far = of(86_400_000_000_000, 57);
        assert!(
            far.contains("packet 42 is stamped 86400 s later") && far.contains("57 packets behind"),
            "{far}"
        );
        assert!(far.contains("editcap IN OUT 42") && far.contains("expired"), "{far}");
    }
}
