//! What happens to every packet before any function sees it: it is parsed and checked, and its side is noted.
//!
//! Each core does so with its own packets (`run.rs`, a batch at a time). An [`Ingress`] does so where packets enter, in
//! order of arrival: it follows the fragments of datagrams, and finds what cores are told of each other's packets.
//! Both take their rules from one [`Checks`], so that all cores see the same packet.

use std::sync::Arc;

use wire::{Headers, LinkType, Malformed};

use crate::chain::Chain;
use crate::checksums::Checksums;
use crate::fragments::{FragmentTracker, Fragments};
use crate::sides::Sides;

/// What a chain checks of each packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// If the chain has two directions.
    pub(crate) sides: Option<Arc<Sides>>,
    /// Whether packets with wrong checksums are malformed.
    pub(crate) verifies_checksums: bool,
    pub(crate) fragments: Fragments,
}

/// A packet's headers, with the side that it comes from, if the chain has sides; unchecked.
#[inline]
pub(crate) fn parse(sides: Option<&Sides>, link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
    let mut headers = wire::parse(link, frame, wire_len);
    if let Some(sides) = sides {
        sides.mark(&mut headers);
    }
    headers
}

impl Checks {
    pub(crate) fn of(chain: &Chain) -> Checks {
        Checks {
            sides: chain.sides.clone(),
            verifies_checksums: chain.checksums == Checksums::Verify,
            fragments: chain.fragments,
        }
    }

    /// Whether a packet that can be parsed may still be malformed.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.verifies_checksums || self.fragments != Fragments::Pass
    }

    #[inline]
    fn parse(&self, link: LinkType, frame: &[u8], wire_len: u32) -> Headers {
        parse(self.sides.as_deref(), link, frame, wire_len)
    }

    /// A packet's headers, checked; `refused` is what was found where it entered.
    pub(crate) fn headers(
        &self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        refused: Option<Malformed>,
    ) -> Headers {
        let mut headers = self.parse(link, frame, wire_len);
        self.refuse(refused, &mut headers);
        self.verify(frame, &mut headers);
        headers
    }

    /// Finds a fragment malformed that the chain drops, or that was refused where it entered.
    #[inline]
    pub(crate) fn refuse(&self, refused: Option<Malformed>, headers: &mut Headers) {
        let is_dropped = self.fragments == Fragments::Drop && headers.is_fragment();
        let reason = refused.or(is_dropped.then_some(Malformed::Fragment));
        if let Some(reason) = reason
            && headers.is_well_formed()
        {
            headers.malformed_code = reason as u8;
        }
    }

    fn verify(&self, frame: &[u8], headers: &mut Headers) {
        if self.verifies_checksums {
            wire::verify_into(frame, headers);
        }
    }
}

/// Where packets enter, in order of arrival.
pub(crate) struct Ingress {
    checks: Checks,
    /// Whether cores are told of packets that others get, and so of what is wrong with them.
    tells: bool,
    tracker: Option<FragmentTracker>,
    /// The latest time so far, ns.
    now_ns: u64,
}

impl Ingress {
    /// For a chain whose cores are told of packets that others get, or are not. Takes all memory that it will need.
    pub(crate) fn new(chain: &Chain, tells: bool) -> Ingress {
        let checks = Checks::of(chain);
        let tracker = (checks.fragments == Fragments::Track).then(FragmentTracker::new);
        Ingress { checks, tells, tracker, now_ns: 0 }
    }

    /// Whether it has to see every packet, and not those alone that are to be hashed.
    pub(crate) fn sees_all(&self) -> bool {
        self.tells || self.tracker.is_some()
    }

    /// The next packet's headers, and why it is refused for a reason that its core cannot find: that has to go with it.
    /// Checked are those alone that somebody else is told of; what else may be wrong the packet's core finds.
    #[inline]
    pub(crate) fn headers(
        &mut self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        time_ns: u64,
    ) -> (Headers, Option<Malformed>) {
        if self.tells || self.tracker.is_some() {
            return self.checked_headers(link, frame, wire_len, time_ns);
        }
        (self.checks.parse(link, frame, wire_len), None)
    }

    fn checked_headers(
        &mut self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        time_ns: u64,
    ) -> (Headers, Option<Malformed>) {
        self.now_ns = self.now_ns.max(time_ns);
        let mut headers = self.checks.parse(link, frame, wire_len);
        if !self.tells && !headers.is_fragment() {
            return (headers, None);
        }
        self.checks.refuse(None, &mut headers);
        self.checks.verify(frame, &mut headers);
        let Some(tracker) = &mut self.tracker else { return (headers, None) };
        // What is malformed by itself nobody puts together with others.
        let fragment = wire::fragment(frame, &headers);
        let refused = fragment.and_then(|fragment| tracker.check(&fragment, self.now_ns));
        self.checks.refuse(refused, &mut headers);
        (headers, refused)
    }
}
