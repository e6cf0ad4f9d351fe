//! What becomes of a packet behind a step.

use io::{Fate, Port};
use nf::{Cx, NetworkFunction, Verdict};
use wire::{Edits, Headers};

use crate::path::batch::Batch;
use crate::path::step::{Stepper, events_of};

impl<F: NetworkFunction> Stepper<F> {
    /// What the verdict means for the packet; a function that inspects payloads has the last word.
    #[inline]
    pub(crate) fn conclude(
        &mut self,
        packet: usize,
        verdict: Verdict,
        meta: &F::Meta,
        batch: &mut Batch,
        port: &dyn Port,
    ) {
        let verdict = match verdict {
            // Payloads of history are elsewhere. No state depends on them: see `Plan`.
            Verdict::Forward if const { F::EXTRAS.inspect.is_some() } && batch.is_own(packet) => {
                self.inspect(packet, meta, batch, port)
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Forward => self.pass(packet, batch),
            _ => self.end(packet, verdict, batch),
        }
    }

    /// The packet passes: the next function reads it as this one left it.
    #[inline(always)]
    pub(crate) fn pass(&self, packet: usize, batch: &mut Batch) {
        self.show_edits(&batch.edits[packet], &mut batch.headers[packet]);
    }

    /// The packet's headers read as this function left them, if another one comes to read them.
    #[inline(always)]
    pub(crate) fn show_edits(&self, edits: &Edits, headers: &mut Headers) {
        if !F::EDITS.is_empty() && !self.is_last {
            edits.apply_to_headers(headers);
        }
    }

    fn inspect(&mut self, packet: usize, meta: &F::Meta, batch: &mut Batch, port: &dyn Port) -> Verdict {
        let Some(inspect) = (const { F::EXTRAS.inspect }) else { return Verdict::Forward };
        let Batch { frames, headers, edits, .. } = batch;
        let frame = &frames[packet];
        let payload = payload(port.bytes(frame), &headers[packet]);
        let mut no_pool = ();
        let events = events_of::<F>(&mut self.events, true);
        let mut cx = Cx::new(frame.stamp, &mut edits[packet], &mut no_pool, events, self.seed);
        inspect(&self.function, payload, meta, &mut cx)
    }

    /// Ends the chain for a packet.
    #[cold]
    pub(crate) fn end(&mut self, packet: usize, verdict: Verdict, batch: &mut Batch) {
        let counted = u64::from(batch.is_own(packet));
        let fate = match verdict {
            Verdict::Forward => return,
            Verdict::Drop(reason) => {
                let unnamed = self.drops.len() - 1;
                if usize::from(reason) >= unnamed {
                    self.undeclared_drop = Some(reason);
                }
                self.drops[usize::from(reason).min(unnamed)] += counted;
                Fate::DropBy { function: self.index, reason }
            }
            Verdict::TransmitBack => {
                self.transmit_back += counted;
                Fate::TransmitBack
            }
            Verdict::Host => {
                self.host += counted;
                Fate::Host
            }
        };
        batch.end(packet, fate);
    }
}

/// What a frame holds after its transport header, without link padding.
fn payload<'a>(frame: &'a [u8], headers: &Headers) -> &'a [u8] {
    let begin = usize::from(headers.payload_offset()).min(frame.len());
    let end = (begin + usize::from(headers.payload_len())).min(frame.len());
    &frame[begin..end]
}
