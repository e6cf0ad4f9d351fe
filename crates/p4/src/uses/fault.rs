//! What a pipeline cannot do, and what it may do in another order, in words.

use crate::ir::{Object, Program};
use crate::passes::allocate::MAX_LAYOUT_STAGES;

/// What a pipeline cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One packet uses a state of several stages under two keys.
    TwoKeys(Object),
    /// One packet writes under two keys, or uses more than two, or one key field is two of them in turn.
    Ports(Object),
    /// One packet is counted or marked twice.
    CountedTwice(Object),
    /// A state is read behind its write.
    ReadBehindWrite(Object),
    /// A state of several stages is written by a packet that has not read it.
    WrittenUnread(Object),
    /// A register is written in a later stage than it is read, or in several.
    NotARegister {
        /// Which.
        object: Object,
        /// Where it is read.
        reads: u16,
        /// Where it is written.
        writes: u16,
    },
    /// Two states of several stages share one.
    SpansMeet {
        /// The one that is read first.
        first: Object,
        /// The other.
        second: Object,
        /// A stage of both.
        stage: u16,
    },
    /// The egress keeps state.
    InEgress(Object),
    /// These are used in orders for which there are no stages; none of them where there are just too many.
    Unsettled(Vec<String>),
}

impl Fault {
    /// In words, and what to do about it.
    pub fn describe(&self, program: &Program) -> String {
        let name = |object: &Object| object.describe(program);
        let uses = |object: &Object| object.describe_uses(program);
        match self {
            Fault::TwoKeys(object) => format!(
                "{} is written in a later stage than it is read, and used under two keys by one packet; a pipeline holds \
                 packets back by one key: use that for reads and writes, or write in the stage that reads",
                uses(object)
            ),
            Fault::Ports(object) => format!(
                "{} is used under too many keys by one packet; a stage's memory is read under two keys at most, each \
                 computed in a field of its own, and written under one of them",
                uses(object)
            ),
            Fault::CountedTwice(object) => {
                format!("{} is used twice by one packet; count in one place, under a condition", uses(object))
            }
            Fault::ReadBehindWrite(object) => format!(
                "{} is read behind its write; keep what was written in metadata instead",
                uses(object)
            ),
            Fault::WrittenUnread(object) => format!(
                "{} may be written by a packet that has not read it; read it first, under the same key",
                uses(object)
            ),
            Fault::NotARegister { object, reads, writes } => format!(
                "{} is read in stage {reads} and written from stage {writes}, which a register cannot be; declare a \
                 muTable",
                uses(object)
            ),
            Fault::SpansMeet { first, second, stage } => format!(
                "{} and {} are both between read and write in stage {stage}, and a packet that is done over for one \
                 would write the other twice; read the second behind the write of the first, or make one of both",
                name(first),
                name(second)
            ),
            Fault::Unsettled(names) if names.is_empty() => {
                format!("the program takes more than {MAX_LAYOUT_STAGES} stages")
            }
            Fault::Unsettled(names) => format!(
                "there are no stages for {}: each is in one stage, and one use of it waits for what another use finds; \
                 use it once for a packet, or have another for the second use",
                names.join(" and ")
            ),
            Fault::InEgress(object) => {
                format!("{} is used in the egress; a pipeline keeps state in the ingress only", uses(object))
            }
        }
    }
}

/// Packets wait for a state of several stages, and meanwhile packets of its other flows go on. So those that have one key
/// in a later state come to that in another order than they arrived in, unless they have one key in the first state too,
/// or none of them waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken {
    /// The muTable for which packets wait.
    pub waits: Object,
    /// The state that is looked up in the same stage or a later one.
    pub behind: Object,
}

impl Overtaken {
    /// In words, and what to do about it.
    pub fn describe(&self, program: &Program) -> String {
        format!(
            "{} may be asked in another order than packets arrive in: packets wait for {}, and others of the same key here \
             need not wait; make its keys part of this one's, and read it for every packet that comes here, or expect \
             other results than one packet after the other gives",
            self.behind.describe_uses(program),
            self.waits.describe(program)
        )
    }
}
