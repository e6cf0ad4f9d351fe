//! Runs the operations of a stage.

use p4::interpret::{Marker, drawn, hash};
use p4::ir::ones;
use p4::semantics;

use super::code::{ASKED, Compute, NUMBER, Op, Place, Range, Source, TIME_NS, WRITTEN, pair, put};
use super::image::Image;
use super::limits::{MAX_KEYS, STATE_WORDS, words_of};

impl Image {
    /// Runs operations on a header vector.
    pub fn run(&self, ops: &[Op], phv: &mut [u64]) {
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            at += 1;
            match *op {
                Op::Compute { to, compute } => {
                    let value = self.computed(compute, to.width, phv);
                    put(phv, to, value);
                }
                Op::UnlessSet { condition, target } => {
                    if self.value(condition, phv) == 0 {
                        at = target as usize;
                    }
                }
                Op::UnlessChosen { word, action, target } => {
                    if phv[usize::from(word)] != u64::from(action) + 1 {
                        at = target as usize;
                    }
                }
                Op::Jump { target } => at = target as usize,
                Op::ForgetAsked { objects } => phv[ASKED] &= !objects,
                Op::ForgetWritten { objects } => phv[WRITTEN] &= !objects,
                ref other => self.less_simple(other, phv),
            }
        }
    }

    fn less_simple(&self, op: &Op, phv: &mut [u64]) {
        match *op {
            Op::LookUp { table, keys, chosen, hit, action_run } => {
                self.look_up(table, keys, chosen, [hit, action_run], phv);
            }
            Op::Ask { object, keys } => self.ask(object, keys, phv),
            Op::Recall { object, to } => self.recall(object, to, phv),
            Op::Keep { object, values } => self.keep(object, values, phv),
            Op::Count { object } => self.count(object, phv),
            Op::Mark { object, to } => self.mark(object, to, phv),
            Op::Hash { algorithm, operands, to } => {
                let [base, max] = [0, 1].map(|at| self.value(operands.of(&self.lists.sources)[at], phv));
                let data = Range { start: operands.start + 2, ..operands };
                let hashed = self.with_bytes(data, phv, |bytes| hash(algorithm, bytes));
                put(phv, to, base.wrapping_add(hashed.checked_rem(max).unwrap_or_default()));
            }
            Op::Checksum { algorithm, data, to } => {
                let sum = self.with_bytes(data, phv, |bytes| hash(algorithm, bytes));
                put(phv, to, sum);
            }
            Op::Random { low, high, to } => {
                let (low, high) = (self.value(low, phv), self.value(high, phv));
                let span = high.saturating_sub(low).saturating_add(1);
                put(phv, to, low.wrapping_add(drawn(phv[NUMBER], 1) % span));
            }
            _ => {}
        }
    }

    #[inline]
    fn value(&self, source: Source, phv: &[u64]) -> u128 {
        match source {
            Source::Word(word) => u128::from(phv[usize::from(word)]),
            Source::Pair(word) => pair(phv, word),
            Source::Constant(value) => u128::from(value),
            Source::Wide(at) => self.lists.wide[at as usize],
        }
    }

    #[inline]
    fn computed(&self, compute: Compute, to_width: u16, phv: &[u64]) -> u128 {
        let value = |source| self.value(source, phv);
        match compute {
            Compute::Copy(from) => value(from),
            Compute::Resize { from, width, signed } => {
                semantics::resize(value(from), width.into(), to_width.into(), signed)
            }
            Compute::Not(from) => !value(from),
            Compute::Negate(from) => value(from).wrapping_neg(),
            Compute::Slice { from, high, low } => value(from) >> low & ones(u32::from(high - low) + 1),
            Compute::Insert { into, from, high, low } => {
                semantics::insert(value(into), value(from), high.into(), low.into())
            }
            Compute::Binary { by, a, b, width, b_width } => {
                semantics::binary(by, value(a), value(b), width.into(), b_width.into())
            }
            Compute::Select { condition, then, otherwise } => match value(condition) {
                0 => value(otherwise),
                _ => value(then),
            },
        }
    }

    fn keys<'k>(&self, keys: Range, phv: &[u64], into: &'k mut [u128; MAX_KEYS]) -> &'k [u128] {
        let sources = keys.of(&self.lists.sources);
        for (key, source) in into.iter_mut().zip(sources) {
            *key = self.value(*source, phv);
        }
        &into[..sources.len()]
    }

    fn look_up(&self, table: u32, keys: Range, chosen: u16, results: [Option<Place>; 2], phv: &mut [u64]) {
        let mut room = [0; MAX_KEYS];
        let keys = self.keys(keys, phv, &mut room);
        let (is_hit, call) = self.machine.state().look_up(table, keys);
        phv[usize::from(chosen)] = u64::from(call.action) + 1;
        for (place, argument) in self.parameters[call.action as usize].iter().zip(&call.arguments) {
            if let Some(place) = place {
                put(phv, *place, argument.value);
            }
        }
        let [hit, action_run] = results;
        if let Some(hit) = hit {
            put(phv, hit, u128::from(is_hit));
        }
        if let Some(to) = action_run {
            let actions = &self.machine.program().tables[table as usize].actions;
            let at = actions.iter().position(|listed| *listed == call.action).unwrap_or_default();
            put(phv, to, at as u128);
        }
    }

    fn ask(&self, object: u16, keys: Range, phv: &mut [u64]) {
        let mut room = [0; MAX_KEYS];
        let keys = self.keys(keys, phv, &mut room);
        let object_of = &self.objects[usize::from(object)];
        if let Some(key) = object_of.key(&self.machine, keys) {
            phv[ASKED] |= 1 << object;
            phv[object_of.key_word] = key;
        }
    }

    fn recall(&self, object: u16, to: Range, phv: &mut [u64]) {
        let held = &self.objects[usize::from(object)];
        let is_asked = phv[ASKED] >> object & 1 == 1;
        let mut from = if phv[WRITTEN] >> object & 1 == 1 { held.new_words } else { held.read_words };
        for place in to.of(&self.lists.places) {
            let value = match (is_asked, place.width > 64) {
                (false, _) => 0,
                (true, false) => u128::from(phv[from]),
                (true, true) => pair(phv, from as u16),
            };
            put(phv, *place, value);
            from += words_of(place.width);
        }
    }

    fn keep(&self, object: u16, values: Range, phv: &mut [u64]) {
        if phv[ASKED] >> object & 1 == 0 {
            return;
        }
        let held = &self.objects[usize::from(object)];
        let mut word = held.new_words as u16;
        for (source, width) in values.of(&self.lists.sources).iter().zip(&held.widths) {
            let value = self.value(*source, phv);
            put(phv, Place { word, width: *width }, value);
            word += words_of(*width) as u16;
        }
        phv[WRITTEN] |= 1 << object;
    }

    fn count(&self, object: u16, phv: &mut [u64]) {
        if phv[ASKED] >> object & 1 == 1 {
            let held = &self.objects[usize::from(object)];
            phv[held.new_words] = phv[held.read_words] + 1;
            phv[held.new_words + 1] = phv[held.read_words + 1] + phv[usize::from(self.packet_length)];
            phv[WRITTEN] |= 1 << object;
        }
    }

    fn mark(&self, object: u16, to: Place, phv: &mut [u64]) {
        let held = &self.objects[usize::from(object)];
        let is_asked = phv[ASKED] >> object & 1 == 1;
        let marker = held.markers.get(&(phv[held.key_word] as u32)).filter(|_| is_asked);
        let Some(marker) = marker else { return put(phv, to, 0) };
        let mut memory = [0; STATE_WORDS];
        memory.copy_from_slice(&phv[held.read_words..held.read_words + STATE_WORDS]);
        let mut marker: Marker = marker.remembering(memory);
        let units = if held.counts_bytes { phv[usize::from(self.packet_length)] } else { 1 };
        let colour = marker.mark(units, phv[TIME_NS]);
        phv[held.new_words..held.new_words + STATE_WORDS].copy_from_slice(&marker.memory());
        phv[WRITTEN] |= 1 << object;
        put(phv, to, colour);
    }

    fn with_bytes<T>(&self, data: Range, phv: &[u64], with: impl Fn(&[u8]) -> T) -> T {
        let mut scratch = self.scratch.borrow_mut();
        let writer = &mut scratch.0;
        writer.clear();
        for (source, width) in data.of(&self.lists.sources).iter().zip(data.of(&self.lists.widths)) {
            writer.write(self.value(*source, phv), (*width).into());
        }
        with(writer.bytes())
    }
}
