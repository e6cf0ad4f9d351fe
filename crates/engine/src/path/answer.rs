//! A core answers between two batches what it is asked of its flows and rules: see [`portion`](super::portion).

use std::time::Instant;

use crate::path::core::ChainCore;
use crate::path::portion::{Ask, Listed, Wanted};

impl ChainCore {
    /// How often each rule of a function decided on this core's packets.
    pub(crate) fn rules(&self, function: usize) -> &[u64] {
        self.places.get(function).map_or(&[], |place| self.groups[place.group].rules(place.member))
    }

    /// Answers what is asked of this core, between two batches.
    #[inline]
    pub(crate) fn answer(&mut self) {
        if let Some(listed) = &self.listed
            && listed.tray.is_asked()
        {
            self.answer_asked();
        }
    }

    #[cold]
    fn answer_asked(&mut self) {
        let Some(Listed { tray, chain }) = &self.listed else { return };
        tray.answer_by(|ask| {
            let begin = Instant::now();
            ask.is_another_chain = ask.chain != *chain;
            if !ask.is_another_chain {
                self.fill(ask);
            }
            ask.worked_ns = begin.elapsed().as_nanos() as u64;
        });
    }

    fn fill(&self, ask: &mut Ask) {
        match ask.wanted {
            Wanted::Moved => ask.moved_in = self.groups.iter().map(|group| group.moved_in()).sum(),
            Wanted::Flows(function, from) => {
                ask.next =
                    self.places.get(function).zip(ask.portion.as_mut()).and_then(|(place, portion)| {
                        self.groups[place.group].list(place.member, from, portion)
                    });
            }
            Wanted::Rules(function) => {
                let room = ask.rules.capacity();
                ask.rules.extend(self.rules(function).iter().take(room));
            }
        }
    }
}
