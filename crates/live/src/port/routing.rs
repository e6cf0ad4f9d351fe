//! What a port does by the router's decisions: packets go on, wait for their neighbours, or are answered.

use io::{Frame, Unedited, Why};
use wire::{Headers, LinkType, Stamp};

use super::{LivePort, Mode};
use crate::counters::Lost;
use crate::route::{Came, Decision, Forwarder, RouteDrop};

impl LivePort {
    /// Has the router decide on a frame, and does what it decides.
    #[inline]
    pub(super) fn route(
        &mut self,
        mut frame: Frame,
        from: usize,
        decide: impl FnOnce(&mut Forwarder, &mut [u8], &Headers, Came<'_>) -> Decision,
    ) {
        let Mode::Route(forwarder) = &mut self.mode else { return self.leave(frame, None) };
        let (data, note) = (frame.data(), frame.note);
        let (before, bytes) = self.pool.buffer_mut(&mut frame).split_at_mut(data.start);
        let bytes = &mut bytes[..data.len()];
        let headers = wire::parse(LinkType::Ethernet, bytes, bytes.len() as u32);
        let unedited = if note.is_edited() { Unedited::before(before) } else { None };
        let is_inside = note.is_inside_a_tunnel();
        let came = Came { by: self.sides[from].interface.index, unedited, is_inside };
        let decision = decide(forwarder, bytes, &headers, came);
        let to = match decision {
            Decision::Send { interface } => self.way_out(&frame, from, interface),
            Decision::Host => self.leave_to_host(&frame, from),
            Decision::Drop(reason) => {
                self.tell_dropped(&frame, from, Why::Behind("router", reason.name()));
                None
            }
            Decision::Reply { interface, reason } => {
                self.tell_dropped(&frame, from, Why::Behind("router", reason.name()));
                self.answer(interface);
                None
            }
            Decision::Unresolved => return self.wait(frame),
        };
        self.leave(frame, to);
    }

    /// Drops those of the packets just received, from this one on, which no honest sender sends by way of a router: the chain
    /// is not to keep state of them. The others get their numbers.
    #[inline]
    pub(super) fn screen(&mut self, frames: &mut Vec<Frame>, begin: usize, from: usize) {
        let Mode::Route(forwarder) = &mut self.mode else { return };
        let mut at = begin;
        while at < frames.len() {
            match forwarder.screen(self.pool.bytes(&frames[at])) {
                None => at += 1,
                Some(reason) => return self.screen_out(frames, (begin, at), from, reason),
            }
        }
    }

    /// Drops the packet at `first`, for the reason `why`, and all later ones that the router refuses.
    #[cold]
    fn screen_out(
        &mut self,
        frames: &mut Vec<Frame>,
        (begin, first): (usize, usize),
        from: usize,
        why: RouteDrop,
    ) {
        let (mut kept, mut why) = (first, Some(why));
        for at in first..frames.len() {
            if at > first {
                let Mode::Route(forwarder) = &mut self.mode else { return };
                why = forwarder.screen(self.pool.bytes(&frames[at]));
            }
            match why {
                None => {
                    frames.swap(kept, at);
                    kept += 1;
                }
                Some(reason) => self.tell_dropped(&frames[at], from, Why::Behind("router", reason.name())),
            }
        }
        let dropped = frames.len() - kept;
        self.pool.give_back(frames.drain(kept..));
        self.clock.take_back(dropped, &mut frames[begin..]);
    }

    /// Has a packet wait for its neighbour. The one whose place it takes is dropped.
    #[cold]
    pub(super) fn wait(&mut self, frame: Frame) {
        let Mode::Route(forwarder) = &self.mode else { return self.leave(frame, None) };
        if let Some(before) = self.unresolved.put(forwarder, frame) {
            self.give_up(before);
        }
    }

    /// A packet that waited for its neighbour is dropped.
    #[cold]
    pub(super) fn give_up(&mut self, frame: Frame) {
        let from = usize::from(self.origins[self.pool.chunk_of(&frame)]);
        self.route(frame, from, |forwarder, _, _, _| Decision::Drop(forwarder.give_up()));
    }

    /// The router takes the newest tables. Packets that waited for them go first.
    #[inline]
    pub(super) fn refresh(&mut self) {
        let Mode::Route(forwarder) = &mut self.mode else { return };
        forwarder.refresh(self.clock.now_ns());
        if !self.unresolved.is_empty() {
            self.release();
        }
    }

    /// Has the router decide again on packets whose neighbours it knows by now, as far as there is room for them.
    #[cold]
    pub(super) fn release(&mut self) {
        while self.room() > 0
            && let Mode::Route(forwarder) = &self.mode
            && let Some(frame) = self.unresolved.take_due(forwarder)
        {
            let from = usize::from(self.origins[self.pool.chunk_of(&frame)]);
            self.route(frame, from, |forwarder, frame, headers, came| forwarder.again(frame, headers, came));
        }
    }

    /// The interface by which a frame leaves.
    pub(super) fn way_out(&mut self, frame: &Frame, from: usize, interface: u32) -> Option<usize> {
        let to = self.number_of(interface);
        if to.is_none() {
            self.sides[from].lost.lose(Lost::NoWayOut);
            self.tell_dropped(frame, from, Why::Behind("port", Lost::NoWayOut.name()));
        }
        to
    }

    /// Sends the router's answer.
    pub(super) fn answer(&mut self, interface: u32) {
        let (Mode::Route(forwarder), Some(by)) = (&self.mode, self.number_of(interface)) else { return };
        let reply = forwarder.reply();
        let len = reply.len() as u32;
        let Some(frame) = self.pool.fill(Stamp::default(), LinkType::Ethernet, len, reply) else {
            self.sides[by].lost.lose(Lost::NoBuffer);
            return;
        };
        self.origins[self.pool.chunk_of(&frame)] = by as u8;
        match self.sides[by].room() {
            0 => {
                self.sides[by].lost.lose(Lost::RingFull);
                self.pool.give_back([frame].into_iter());
            }
            _ => self.sides[by].stage(frame),
        }
    }
}
