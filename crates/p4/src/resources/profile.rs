//! A chip, as a TOML file: how much of each resource a stage has, and where each number comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a stage has a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Blocks of SRAM.
    Sram,
    /// Blocks of TCAM.
    Tcam,
    /// Hash units: one for each hashed key, hash and checksum.
    Hash,
    /// Stateful ALUs: one for each word of a state that packets write in the stage that reads it.
    Alu,
    /// Tables that are looked up at once.
    Table,
    /// Bits of all keys that are looked up.
    Key,
}

/// All resources, in the order of [`Amounts`].
pub const RESOURCES: [Resource; 6] =
    [Resource::Sram, Resource::Tcam, Resource::Hash, Resource::Alu, Resource::Table, Resource::Key];

/// How much there is of each resource, in the order of [`RESOURCES`].
pub type Amounts = [u64; RESOURCES.len()];

impl Resource {
    /// Its name, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Sram => "SRAM blocks",
            Resource::Tcam => "TCAM blocks",
            Resource::Hash => "hash units",
            Resource::Alu => "stateful ALUs",
            Resource::Table => "tables",
            Resource::Key => "key bits",
        }
    }
}

/// A number, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// The number.
    pub number: u32,
    /// A paper's section, or that it is a choice.
    pub source: String,
}

/// Blocks of a memory in a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// How many.
    pub blocks: Number,
    /// Rows of a block.
    pub rows: Number,
    /// Bits of a row.
    pub bits: Number,
}

/// What a stage has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its SRAM.
    pub sram: Memory,
    /// Its TCAM.
    pub tcam: Memory,
    /// Its hash units.
    pub hash_units: Number,
    /// Its stateful ALUs.
    pub alus: Number,
    /// Bits of a word of one.
    pub alu_bits: Number,
    /// Tables that are looked up at once.
    pub tables: Number,
    /// Bits of all keys that are looked up.
    pub key_bits: Number,
}

/// Containers of one size in the header vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Containers {
    /// Bits of each.
    pub bits: u32,
    /// How many.
    pub count: Number,
}

/// The side ring (RAPID §4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ring {
    /// Bits of a header vector or a state on the bus.
    pub payload_bits: Number,
    /// Bits of the bus.
    pub bus_bits: Number,
}

/// A chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// Stages of ingress and egress together.
    pub stages: Number,
    /// What each of them has.
    pub stage: Stage,
    /// The header vector.
    pub containers: Vec<Containers>,
    /// The ring; without one no state is written behind the stage that reads it.
    #[serde(default)]
    pub ring: Option<Ring>,
}

/// What is wrong with a profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProfileError {
    /// It is no TOML, or has other keys.
    #[error("{0}")]
    Form(String),
    /// A number outside its range.
    #[error("{what} is {number}; it must be {least} to {most}")]
    Range {
        /// Which.
        what: String,
        /// What it is.
        number: u32,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// No two may have one size.
    #[error("two kinds of containers have {0} bits; put their counts together")]
    Twice(u32),
}

/// Most stages of a profile.
pub const MAX_STAGES: u32 = 64;

/// The most of anything else.
const MAX_NUMBER: u32 = 1 << 20;

const STOCK: [&str; 4] = [
    include_str!("profiles/rapid.toml"),
    include_str!("profiles/banzai.toml"),
    include_str!("profiles/switch.toml"),
    include_str!("profiles/sequencer.toml"),
];

impl Profile {
    /// Those that come with Paceline.
    pub fn stock() -> impl Iterator<Item = Profile> {
        STOCK.iter().filter_map(|text| Profile::read(text).ok())
    }

    /// A profile from a TOML file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Profile, ProfileError> {
        let mut profile: Profile = toml::from_str(text)
            .map_err(|error| ProfileError::Form(error.to_string().trim_end().to_owned()))?;
        let stage = &profile.stage;
        within("stages", &profile.stages, 1, MAX_STAGES)?;
        for (name, memory) in [("sram", &stage.sram), ("tcam", &stage.tcam)] {
            within(&format!("stage.{name}.blocks"), &memory.blocks, 0, MAX_NUMBER)?;
            within(&format!("stage.{name}.rows"), &memory.rows, 1, MAX_NUMBER)?;
            within(&format!("stage.{name}.bits"), &memory.bits, 1, MAX_NUMBER)?;
        }
        let counts = [
            ("hash_units", &stage.hash_units, 0),
            ("alus", &stage.alus, 0),
            ("alu_bits", &stage.alu_bits, 1),
            ("tables", &stage.tables, 0),
            ("key_bits", &stage.key_bits, 0),
        ];
        for (name, number, least) in counts {
            within(&format!("stage.{name}"), number, least, MAX_NUMBER)?;
        }
        for containers in &profile.containers {
            let bits = Number { number: containers.bits, source: String::new() };
            within("bits of containers", &bits, 1, crate::ir::MAX_WIDTH)?;
            within("count of containers", &containers.count, 0, MAX_NUMBER)?;
        }
        if let Some(ring) = &profile.ring {
            within("ring.payload_bits", &ring.payload_bits, 1, MAX_NUMBER)?;
            within("ring.bus_bits", &ring.bus_bits, 1, MAX_NUMBER)?;
        }
        profile.containers.sort_by_key(|containers| containers.bits);
        match profile.containers.windows(2).find(|pair| pair[0].bits == pair[1].bits) {
            Some(pair) => Err(ProfileError::Twice(pair[0].bits)),
            None => Ok(profile),
        }
    }

    /// What a stage has of each resource.
    pub fn limits(&self) -> Amounts {
        let stage = &self.stage;
        let all = [
            &stage.sram.blocks,
            &stage.tcam.blocks,
            &stage.hash_units,
            &stage.alus,
            &stage.tables,
            &stage.key_bits,
        ];
        all.map(|number| number.number.into())
    }

    /// Bits of the whole header vector.
    pub fn vector_bits(&self) -> u64 {
        let bits = |containers: &Containers| u64::from(containers.bits) * u64::from(containers.count.number);
        self.containers.iter().map(bits).sum()
    }
}

fn within(what: &str, found: &Number, least: u32, most: u32) -> Result<(), ProfileError> {
    let number = found.number;
    match (least..=most).contains(&number) {
        true => Ok(()),
        false => Err(ProfileError::Range { what: what.to_owned(), number, least, most }),
    }
}
