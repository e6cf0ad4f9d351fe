//! What a sweep compares: chains, captures and settings.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Chain;
use nf::hash_bytes;

use crate::{Capture, Setting, mutate};

/// A chain with what it is called.
#[derive(Clone)]
pub struct NamedChain {
    /// Its file, or what a test calls it.
    pub name: String,
    /// A hash of what the file says: a chain that was changed is another chain.
    pub hash: u64,
    /// The chain.
    pub chain: Arc<Chain>,
}

/// Where a capture comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A file with what an object store has by this name.
    Fetched(String, PathBuf),
    /// Memory, with a name.
    Memory(String, Arc<Capture>),
}

/// What a sweep is to compare: every chain over every capture, and every mutation of it, under every setting.
#[derive(Clone)]
pub struct Question {
    /// The captures.
    pub sources: Vec<Source>,
    /// How many mutations of each capture there are, beside the capture itself.
    pub mutations: u32,
    /// The chains.
    pub chains: Vec<NamedChain>,
    /// The settings; their seeds are replaced.
    pub settings: Vec<Setting>,
    /// The most packets of each capture.
    pub most_packets: usize,
    /// What mutations, tables' hashes and losses are drawn from.
    pub seed: u64,
}

/// One comparison of a [`Question`], by number from 0 in each of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub source: usize,
    /// 0: the capture itself.
    pub mutation: u32,
    pub chain: usize,
    pub setting: usize,
}

impl Source {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Memory(name, _) | Source::Fetched(name, _) => name.clone(),
        }
    }

    /// The capture.
    ///
    /// # Errors
    /// Says why it cannot be read.
    pub fn load(&self, most_packets: usize) -> Result<Arc<Capture>, String> {
        match self {
            Source::File(path) | Source::Fetched(_, path) => {
                Capture::load(path, most_packets).map(Arc::new).map_err(|error| error.to_string())
            }
            Source::Memory(_, capture) => Ok(Arc::clone(capture)),
        }
    }
}

impl Question {
    /// Comparisons of each capture and each mutation of it.
    pub fn runs_of_each(&self) -> u64 {
        (self.chains.len() * self.settings.len()) as u64
    }

    /// Comparisons of all, if every capture can be read.
    pub fn runs(&self) -> u64 {
        self.sources.len() as u64 * (u64::from(self.mutations) + 1) * self.runs_of_each()
    }

    pub(crate) fn at(&self, number: u64) -> Option<At> {
        let mut rest = number;
        let mut digit = |base: u64| {
            let digit = rest % base.max(1);
            rest /= base.max(1);
            digit
        };
        let setting = digit(self.settings.len() as u64) as usize;
        let chain = digit(self.chains.len() as u64) as usize;
        let mutation = digit(u64::from(self.mutations) + 1) as u32;
        (number < self.runs()).then_some(At { source: rest as usize, mutation, chain, setting })
    }

    /// Everything that decides a comparison, as one number: what is done need not be done again.
    pub(crate) fn key(&self, at: At) -> u64 {
        let NamedChain { name, hash, .. } = &self.chains[at.chain];
        let setting = Setting { seed: 0, ..self.settings[at.setting] };
        let text = format!(
            "{} {} {} {name} {hash} {setting:?} {} {}",
            env!("CARGO_PKG_VERSION"),
            self.sources[at.source].name(),
            at.mutation,
            self.most_packets,
            self.seed
        );
        hash_bytes(text.as_bytes(), 0)
    }

    /// The setting with a seed of its own.
    pub(crate) fn setting(&self, at: At) -> Setting {
        // Half of the bits: seeds are read by people.
        let seed = hash_bytes(&self.key(at).to_le_bytes(), self.seed) >> 32;
        Setting { seed, ..self.settings[at.setting] }
    }

    /// A mutation of `capture`, which is source number `source`; 0 is the capture itself.
    pub(crate) fn mutated(
        &self,
        capture: &Arc<Capture>,
        source: usize,
        mutation: u32,
    ) -> Result<Arc<Capture>, String> {
        if mutation == 0 {
            return Ok(Arc::clone(capture));
        }
        let name = self.sources[source].name();
        let seed = hash_bytes(name.as_bytes(), hash_bytes(&mutation.to_le_bytes(), self.seed));
        mutate(capture, seed).map(Arc::new)
    }
}
