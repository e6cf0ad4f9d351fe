//! What is checked of each packet beside its headers: checksums, and whether it is a fragment.

use std::sync::Arc;

use io::{Followed, Frame, Port};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{First, Headers, LinkType, Malformed, Side};

use crate::path::sides::Sides;

/// What becomes of fragments. Atomic fragments of IPv6 are whole packets (RFC 6946).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fragments {
    /// They go on, each for itself.
    #[default]
    Pass,
    /// They are malformed.
    Drop,
    /// A [`FragmentTracker`](crate::FragmentTracker) says which are malformed.
    Track,
    /// As [`Fragments::Track`]; besides, later ones have what their first said of their flow.
    Follow,
}

/// What a chain checks of each packet: the same wherever packets are parsed, so that all cores see the same packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    /// If the chain has two directions.
    pub(crate) sides: Option<Arc<Sides>>,
    /// Whether packets come from the side of their interface, where interfaces have sides.
    pub(crate) goes_by_interface: bool,
    /// Whether packets with wrong checksums are malformed.
    pub(crate) verifies_checksums: bool,
    pub(crate) fragments: Fragments,
}

impl Checks {
    /// Whether a packet that can be parsed may still be malformed.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.verifies_checksums || self.fragments != Fragments::Pass
    }

    /// A packet's headers, with the side that it comes from; unchecked.
    #[inline]
    pub(crate) fn parse_into(&self, link: LinkType, frame: &[u8], wire_len: u32, headers: &mut Headers) {
        parse_into(self.sides.as_deref(), link, frame, wire_len, headers);
    }

    /// Those of each of up to 64 packets; `bytes` says where a packet's are.
    #[inline]
    pub(crate) fn parse_batch<'a>(
        &self,
        frames: &'a [Frame],
        headers: &mut [Headers],
        bytes: impl Fn(&'a Frame) -> &'a [u8],
    ) {
        wire::parse_batch(frames, 0, headers, |frame| (frame.link, bytes(frame), frame.wire_len));
        if let Some(sides) = self.sides.as_deref() {
            let with_frames = headers.iter_mut().zip(frames);
            with_frames.for_each(|(headers, frame)| sides.mark_by(self.side_of(frame), headers));
        }
    }

    /// The side of the interface by which a packet came, if it is to be told by that.
    #[inline]
    pub(crate) fn side_of(&self, frame: &Frame) -> Option<Side> {
        frame.note.side().filter(|_| self.goes_by_interface)
    }

    /// A packet's headers, checked; `refused` is what was found where it entered, and `first` what the first fragment of a later one
    /// said there.
    pub(crate) fn headers(
        &self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
        refused: Option<Malformed>,
        first: Option<First>,
    ) -> Headers {
        let mut headers = Headers::default();
        self.parse_into(link, frame, wire_len, &mut headers);
        self.refuse(refused, &mut headers);
        first.iter().for_each(|first| headers.follow(first));
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

    /// Makes a later fragment one of the flow of its first, if that was known where it entered. `port` holds the frame.
    #[inline]
    pub(crate) fn follow(&self, port: &mut (impl Port + ?Sized), frame: &mut Frame, headers: &mut Headers) {
        if let Some(first) = Followed::read(frame, |frame| port.buffer_mut(frame)) {
            headers.follow(&first);
        }
    }

    /// Whether datagrams are followed by their fragments.
    #[inline]
    pub(crate) fn tracks_fragments(&self) -> bool {
        matches!(self.fragments, Fragments::Track | Fragments::Follow)
    }

    /// Finds a packet with a wrong checksum malformed, if the chain verifies checksums.
    pub(crate) fn verify(&self, frame: &[u8], headers: &mut Headers) {
        if self.verifies_checksums {
            wire::verify_into(frame, headers);
        }
    }
}

/// A packet's headers, with the side that it comes from, if there are sides; unchecked.
#[inline]
pub(crate) fn parse_into(
    sides: Option<&Sides>,
    link: LinkType,
    frame: &[u8],
    wire_len: u32,
    headers: &mut Headers,
) {
    wire::parse_into(link, frame, wire_len, headers);
    if let Some(sides) = sides {
        sides.mark(headers);
    }
}
