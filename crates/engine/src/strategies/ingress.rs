//! Where packets enter, in order of arrival, ahead of the cores.

use wire::{Headers, LinkType, Malformed};

use crate::chain::Chain;
use crate::path::checks::{Checks, Fragments};
use crate::strategies::dispatch::Dispatcher;
use crate::strategies::fragments::FragmentTracker;

/// Sees every packet once, in order of arrival: follows the fragments of datagrams, and finds what cores are told of
/// each other's packets. Each core checks its own packets by the same checks, a batch at a time.
pub struct Ingress {
    checks: Checks,
    /// Whether the dispatcher looks at headers.
    is_read: bool,
    /// Whether cores are told of packets that others get, and so of what is wrong with them.
    tells: bool,
    tracker: Option<FragmentTracker>,
}

impl Ingress {
    /// Ahead of a dispatcher, in a chain of which all cores have a part. Takes all memory that it will need.
    pub fn new(chain: &Chain, dispatcher: &dyn Dispatcher) -> Ingress {
        let is_read = dispatcher.reads_headers();
        Ingress { is_read, ..Ingress::telling(chain, dispatcher.tells_headers()) }
    }

    /// For a chain whose cores are told of packets that others get, or are not.
    pub(crate) fn telling(chain: &Chain, tells: bool) -> Ingress {
        let checks = chain.checks();
        let tracker = (checks.fragments == Fragments::Track).then(FragmentTracker::new);
        Ingress { checks, is_read: true, tells, tracker }
    }

    /// The same that goes on with the datagrams that one before it follows, where both follow them.
    pub(crate) fn going_on(self, before: Option<Ingress>) -> Ingress {
        let tracker = match (self.tracker, before.and_then(|before| before.tracker)) {
            (Some(_), Some(before)) => Some(before),
            (own, _) => own,
        };
        Ingress { tracker, ..self }
    }

    /// Whether it has to see packets though nobody asks it for headers.
    pub(crate) fn is_needed(&self) -> bool {
        self.tells || self.tracker.is_some()
    }

    /// The next packet's headers, and why it is refused for a reason that its core cannot find: that has to go with it.
    /// Checked are those alone that somebody else is told of; what else may be wrong the packet's core finds. A dispatcher
    /// that looks at no headers is told of none. `time_ns` is the packet's stamp, which never runs back.
    #[inline]
    pub fn headers(
        &mut self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        time_ns: u64,
    ) -> (Headers, Option<Malformed>) {
        let is_checked = self.tracker.is_some() || self.tells && self.checks.is_needed();
        if is_checked {
            return self.checked_headers(link, frame, wire_len, time_ns);
        }
        if !self.is_read && !self.tells {
            return (Headers::default(), None);
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
        let mut headers = self.checks.parse(link, frame, wire_len);
        if !self.tells && !headers.is_fragment() {
            return (headers, None);
        }
        self.checks.refuse(None, &mut headers);
        self.checks.verify(frame, &mut headers);
        let Some(tracker) = &mut self.tracker else { return (headers, None) };
        // What is malformed by itself nobody puts together with others.
        let fragment = wire::fragment(frame, &headers);
        let refused = fragment.and_then(|fragment| tracker.check(&fragment, time_ns));
        self.checks.refuse(refused, &mut headers);
        (headers, refused)
    }
}
