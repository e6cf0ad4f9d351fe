//! Where packets enter, in order of arrival, ahead of the cores.

use wire::{Headers, LinkType, Malformed};

use crate::chain::Chain;
use crate::path::checks::{Checks, Fragments};
use crate::strategies::fragments::FragmentTracker;

/// Sees every packet once, in order of arrival: follows the fragments of datagrams, and finds what cores are told of
/// each other's packets. Each core checks its own packets by the same [`Checks`], a batch at a time.
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
        let checks = chain.checks();
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
