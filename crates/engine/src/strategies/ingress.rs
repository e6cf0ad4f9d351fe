//! Where packets enter, in order of arrival, ahead of the cores.

use io::{Followed, Frame, Port};
use wire::{First, Headers, LinkType, Malformed};

use crate::chain::Chain;
use crate::path::checks::{Checks, Fragments};
use crate::path::packets::BATCH_PACKETS;
use crate::strategies::dispatch::Dispatcher;
use crate::strategies::fragments::FragmentTracker;

/// Sees every packet once, in order of arrival: follows the fragments of datagrams, and finds what cores are told of
/// each other's packets. Each core checks its own packets by the same checks, a batch at a time.
pub struct Ingress {
    checking: Checking,
    /// Whether headers are looked at: by the dispatcher, or by the cores that it tells of them.
    is_read: bool,
    /// Headers of packets that arrived together.
    headers: Box<[Headers; BATCH_PACKETS]>,
}

/// Finds what is wrong with a packet that its core cannot find, or that other cores are told of.
struct Checking {
    checks: Checks,
    /// Whether cores are told of packets that others get, and so of what is wrong with them.
    tells: bool,
    tracker: Option<FragmentTracker>,
}

/// What is found out of a packet, which its core has to be told.
enum Found {
    Nothing,
    /// Why it is refused.
    Refused(Malformed),
    /// It is a later fragment; this is what its first says.
    Follows(First),
}

impl Ingress {
    /// Ahead of a dispatcher, in a chain of which all cores have a part. Takes all memory that it will need.
    pub fn new(chain: &Chain, dispatcher: &dyn Dispatcher) -> Ingress {
        let tells = dispatcher.tells_headers();
        Ingress { is_read: tells || dispatcher.reads_headers(), ..Ingress::telling(chain, tells) }
    }

    /// For a chain whose cores are told of packets that others get, or are not.
    pub(crate) fn telling(chain: &Chain, tells: bool) -> Ingress {
        let checks = chain.checks();
        let tracker = checks.tracks_fragments().then(FragmentTracker::new);
        let checking = Checking { checks, tells, tracker };
        Ingress { checking, is_read: true, headers: Box::new([Headers::default(); BATCH_PACKETS]) }
    }

    /// This ingress, which goes on with the datagrams that the one before it follows, where both follow them.
    pub(crate) fn going_on(mut self, before: Option<Ingress>) -> Ingress {
        let before = before.and_then(|before| before.checking.tracker);
        if let (Some(own), Some(before)) = (&mut self.checking.tracker, before) {
            *own = before;
        }
        self
    }

    /// Whether it has to see packets though nobody asks it for headers.
    pub(crate) fn is_needed(&self) -> bool {
        self.checking.tells || self.checking.tracker.is_some()
    }

    /// The headers of the next packets, at most [`BATCH_PACKETS`](crate::BATCH_PACKETS). In each frame it notes why the
    /// packet is refused for a reason that its core cannot find, or that it is a later fragment whose flow is known. `bytes` says where
    /// `source` has the bytes of a frame; `put` puts before them what the first fragment says ([`io::Followed`]), if there is room.
    ///
    /// Checked are those packets alone that other cores are told of; what else may be wrong a packet's core finds. Where
    /// nobody looks at headers, these are of no packet. The frames' stamps never run back.
    ///
    /// # Panics
    /// If there are more.
    #[inline]
    pub fn batch<S: ?Sized>(
        &mut self,
        frames: &mut [Frame],
        source: &mut S,
        bytes: impl for<'a> Fn(&'a S, &'a Frame) -> &'a [u8],
        put: impl Fn(&mut S, &mut Frame, &First) -> bool,
    ) -> &[Headers] {
        let Ingress { checking, is_read, headers } = self;
        let headers = &mut headers[..frames.len()];
        if *is_read || checking.is_needed() {
            checking.checks.parse_batch(frames, headers, |frame| bytes(&*source, frame));
        }
        if checking.is_needed() {
            for (headers, frame) in headers.iter_mut().zip(frames) {
                match checking.check(bytes(&*source, frame), frame.stamp.time_ns, headers) {
                    Found::Nothing => {}
                    Found::Refused(why) => frame.note = frame.note.with_refused(Some(why)),
                    Found::Follows(first) => {
                        if put(source, frame, &first) {
                            frame.note = frame.note.followed();
                            headers.follow(&first);
                        }
                    }
                }
            }
        }
        headers
    }

    /// What [`Ingress::batch`] said last, of so many packets.
    ///
    /// # Panics
    /// If there are more than [`BATCH_PACKETS`](crate::BATCH_PACKETS).
    #[inline]
    pub fn last(&self, packets: usize) -> &[Headers] {
        &self.headers[..packets]
    }

    /// As [`Ingress::batch`] for one packet that is in no frame, whose headers other cores are told of.
    pub(crate) fn headers(
        &mut self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        time_ns: u64,
    ) -> (Headers, Option<Malformed>) {
        let mut headers = Headers::default();
        self.checking.checks.parse_into(link, frame, wire_len, &mut headers);
        match self.checking.check(frame, time_ns, &mut headers) {
            Found::Refused(why) => (headers, Some(why)),
            Found::Nothing => (headers, None),
            Found::Follows(first) => {
                headers.follow(&first);
                (headers, None)
            }
        }
    }
}

/// Puts what a first fragment says before a later one, which the port holds.
pub(crate) fn put_first<P: Port + ?Sized>(port: &mut P, frame: &mut Frame, first: &First) -> bool {
    let start = frame.data().start;
    Followed::write(first, port.buffer_mut(frame), start)
}

impl Checking {
    #[inline]
    fn is_needed(&self) -> bool {
        self.tracker.is_some() || self.tells && self.checks.is_needed()
    }

    /// Checks a packet whose headers are parsed: what its core cannot find.
    fn check(&mut self, frame: &[u8], time_ns: u64, headers: &mut Headers) -> Found {
        if !self.tells && !headers.is_fragment() {
            return Found::Nothing;
        }
        self.checks.refuse(None, headers);
        self.checks.verify(frame, headers);
        // What is malformed by itself nobody puts together with others.
        let fragment = wire::fragment(frame, headers);
        let (Some(tracker), Some(fragment)) = (&mut self.tracker, fragment) else { return Found::Nothing };
        match tracker.follow(&fragment, headers, time_ns) {
            Err(why) => {
                self.checks.refuse(Some(why), headers);
                Found::Refused(why)
            }
            Ok(Some(first)) if self.checks.fragments == Fragments::Follow => Found::Follows(first),
            Ok(_) => Found::Nothing,
        }
    }
}
