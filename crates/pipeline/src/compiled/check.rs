//! What leaves a pipeline and what it leaves behind, compared with the reference.

use std::collections::{BTreeMap, HashMap};

use p4::interpret::{Machine, Output};
use p4::uses::Object;

use super::image::Image;
use super::limits::State;
use super::object::Held;
use super::run::{Input, Watcher};
use crate::emulation::Outcome;
use crate::options::Model;
use crate::report::Lost;

/// Compares a run with the reference, which takes the packets in order of arrival, those of each pipeline on its own. Of
/// those that were lost it takes what they had changed by then, and nothing else.
///
/// What packets of one flow see of its state is the same where consistency is strict. A register, counter or meter
/// that flows share may be asked in another order than the packets arrived in.
#[derive(Debug, Default)]
pub struct Check {
    packets: Vec<PacketEnd>,
    /// By pipeline and keys in all tables of several stages, the last packet that left. Packets that one of them tells
    /// apart may pass each other there.
    last: HashMap<(usize, Vec<Option<u64>>), u64>,
    /// Packets that left behind a later one of their flow.
    disorder: Option<(u64, u64)>,
    /// Tables of several stages: their packets keep their order.
    flows: Vec<usize>,
    /// Pipelines that share the ring, and which of them each packet goes through: the first, where that is not said.
    pipelines: usize,
    pipeline_of: Vec<usize>,
}

/// What became of a packet.
#[derive(Clone, Debug, Default)]
enum PacketEnd {
    #[default]
    Inside,
    /// It was lost, and had changed these tables, a bit each.
    Lost(u64),
    /// It left: a hash of what ports got, how many they were, and the first port.
    Left(u64, usize, Option<u16>),
    Twice,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Packets that were compared.
    pub compared: u64,
    /// Packets of which the reference sends something else.
    pub packets: u64,
    /// The first of them, in words.
    pub first: Option<String>,
    /// The first state that differs, in words.
    pub state: Option<String>,
    /// Packets that were lost. The reference sends nothing for them, and has of them what they had changed by then.
    pub lost: u64,
}

impl Differences {
    /// Whether there is none.
    pub fn is_equal(&self) -> bool {
        self.packets == 0 && self.first.is_none() && self.state.is_none()
    }
}

impl Check {
    /// For a run of this program on one pipeline.
    pub fn new(image: &Image) -> Check {
        let tables = image.tables().iter().enumerate();
        let flows = tables.filter(|(_, table)| !table.is_atom()).map(|(at, _)| at).collect();
        Check { flows, pipelines: 1, ..Check::default() }
    }

    /// For a run over these packets on the pipelines of a model, which may be several.
    pub fn on(image: &Image, model: &Model, packets: &[Input<'_>]) -> Check {
        let pipelines = model.pipelines();
        let pipeline_of = packets.iter().map(|packet| usize::from(packet.port) % pipelines).collect();
        Check { pipelines, pipeline_of, ..Check::new(image) }
    }

    /// Runs the reference over the same packets, and compares. The reference is the program as it was written,
    /// through no pass, with the entries that the image has. Cost: a run of it.
    pub fn finish(
        self,
        image: &Image,
        reference: Machine,
        packets: &[Input<'_>],
        outcome: &Outcome<State>,
    ) -> Differences {
        let mut found = Differences::default();
        let tables = image.tables().len();
        let mut references = vec![reference; self.pipelines];
        for (number, packet) in packets.iter().enumerate() {
            let pipeline = self.pipeline_of(number as u64);
            let reference = &mut references[pipeline];
            let fate = self.packets.get(number).cloned().unwrap_or_default();
            let mut phv =
                reference.parse_numbered(number as u64 + 1, packet.port, packet.bytes, packet.time_ns);
            if let PacketEnd::Lost(changed) = fate {
                found.lost += 1;
                let changed = changed >> (pipeline * tables);
                reference.ingress_changing(&mut phv, &|object| has_changed(image, changed, object));
                continue;
            }
            reference.ingress(&mut phv, None);
            let expected = left(&reference.leave(&phv));
            found.compared += 1;
            let difference = difference(&expected, &fate);
            if let Some(difference) = difference {
                found.packets += 1;
                found.first.get_or_insert(format!("packet {number}: {difference}"));
            }
        }
        if let Some((number, before)) = self.disorder {
            found.first.get_or_insert(format!("packet {number} left behind packet {before} of its flow"));
        }
        let mut in_pipelines = references.iter().zip(outcome.tables.chunks(tables.max(1)));
        found.state = in_pipelines.find_map(|(reference, found)| state_difference(image, reference, found));
        found
    }
}

impl Watcher for Check {
    fn wants_outputs(&self) -> bool {
        true
    }

    fn departed(&mut self, number: u64, outputs: Vec<Output>, keys: &dyn Fn(usize) -> Option<u64>) {
        let fate = self.fate(number);
        *fate = match fate {
            PacketEnd::Inside => left(&outputs),
            _ => PacketEnd::Twice,
        };
        let flow: Vec<Option<u64>> = self.flows.iter().map(|table| keys(*table)).collect();
        let pipeline = self.pipeline_of(number);
        if flow.iter().any(Option::is_some)
            && let Some(before) = self.last.insert((pipeline, flow), number)
            && before > number
        {
            self.disorder.get_or_insert((number, before));
        }
    }

    fn dropped(&mut self, lost: &Lost) {
        *self.fate(lost.number) = PacketEnd::Lost(lost.changed);
    }
}

impl Check {
    fn pipeline_of(&self, number: u64) -> usize {
        self.pipeline_of.get(number as usize).copied().unwrap_or_default()
    }

    fn fate(&mut self, number: u64) -> &mut PacketEnd {
        let at = number as usize;
        if at >= self.packets.len() {
            self.packets.resize(at + 1, PacketEnd::Inside);
        }
        &mut self.packets[at]
    }
}

/// Whether the object is one of these tables.
fn has_changed(image: &Image, changed: u64, object: Object) -> bool {
    let is_it = |(table, held): (usize, &Held)| held.used.object == object && changed >> table & 1 == 1;
    image.objects.iter().enumerate().any(is_it)
}

fn left(outputs: &[Output]) -> PacketEnd {
    let mut hash = 0;
    for output in outputs {
        hash = nf::hash_bytes(&output.bytes, hash ^ u64::from(output.port) << 32 ^ outputs.len() as u64);
    }
    PacketEnd::Left(hash, outputs.len(), outputs.first().map(|output| output.port))
}

fn difference(expected: &PacketEnd, fate: &PacketEnd) -> Option<String> {
    let PacketEnd::Left(hash, sent, port) = expected else { return None };
    let what = |sent: &usize, port: &Option<u16>| match port {
        Some(port) => format!("sends {sent} to ports, {port} first"),
        None => "sends nothing".to_owned(),
    };
    match fate {
        PacketEnd::Left(other, _, _) if other == hash => None,
        PacketEnd::Left(_, other_sent, other_port) if (other_sent, other_port) == (sent, port) => {
            Some(format!("the reference {} with other bytes", what(sent, port)))
        }
        PacketEnd::Left(_, other_sent, other_port) => {
            let (expected, got) = (what(sent, port), what(other_sent, other_port));
            Some(format!("the reference {expected}, the pipeline {got}"))
        }
        PacketEnd::Inside => Some("it never left".to_owned()),
        PacketEnd::Twice => Some("it left twice".to_owned()),
        PacketEnd::Lost(_) => None,
    }
}

/// The first state that differs from the reference's.
fn state_difference(image: &Image, reference: &Machine, tables: &[BTreeMap<u64, State>]) -> Option<String> {
    let mut memories = image.objects.iter().zip(tables).filter(|(held, _)| !held.used.is_second_key());
    memories.find_map(|(held, found)| {
        let mut expected = held.contents(reference);
        let mut found = found.clone();
        // A register's places are 0 from the start, whether written or not.
        let is_held = |_: &u64, state: &mut State| {
            !matches!(held.used.object, Object::Register(_)) || state[..held.words].iter().any(|w| *w != 0)
        };
        expected.retain(is_held);
        found.retain(is_held);
        let name = held.used.object.describe(reference.program());
        let differs = expected.iter().find(|(key, state)| found.get(key) != Some(state));
        if let Some((key, state)) = differs {
            let words = |state: &State| format!("{:x?}", &state[..held.words]);
            let got = found.get(key).map_or("nothing".to_owned(), words);
            return Some(format!(
                "{name}: for key {key:#x} the reference holds {}, the pipeline {got}",
                words(state)
            ));
        }
        let surplus = found.keys().find(|key| !expected.contains_key(key))?;
        Some(format!("{name}: the pipeline holds key {surplus:#x}, which the reference does not"))
    })
}
