use std::sync::Arc;

use nf::{FlowKey, FunctionReport, NetworkFunction, OptionDoc, OptionError, Sharding};
use serde::Deserialize;
use table::{FlowTable, OutOfMemory};
use toml::de::ValueDeserializer;
use wire::{Fields, Stamp};

use crate::stage::{FunctionStage, Stage, StageSpec};

/// The functions that chain files may name.
///
/// ```
/// # use paceline_engine as engine;
/// use engine::Registry;
///
/// let names: Vec<&str> = Registry::stock().functions().map(|info| info.name).collect();
/// assert!(names.contains(&"conntrack"));
/// ```
#[derive(Clone)]
pub struct Registry {
    makers: Vec<Maker>,
}

/// What is known of a function before it has options.
#[derive(Clone, Copy, Debug)]
pub struct FunctionInfo {
    /// [`NetworkFunction::NAME`].
    pub name: &'static str,
    /// [`NetworkFunction::SUMMARY`].
    pub summary: &'static str,
    /// [`NetworkFunction::SPEC`].
    pub spec: &'static str,
    /// [`NetworkFunction::OPTIONS`].
    pub options: &'static [OptionDoc],
    /// [`NetworkFunction::DROP_REASONS`].
    pub drop_reasons: &'static [&'static str],
    /// [`NetworkFunction::EVENTS`].
    pub events: &'static [&'static str],
    /// [`NetworkFunction::EDITS`].
    pub edits: Fields,
    /// What its key is made of.
    pub sharding: Sharding,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the metadata, SCR's *f(p)*.
    pub meta_bytes: usize,
    /// Bytes of one flow's state.
    pub state_bytes: usize,
}

/// A function with its options, whatever its type.
pub trait Function: Send + Sync {
    /// What is known of it.
    fn info(&self) -> FunctionInfo;

    /// The function on one core, with an empty table.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is no memory for its table.
    fn stage(&self, spec: StageSpec) -> Result<Box<dyn Stage>, OutOfMemory>;

    /// Bytes that a table for `flows` flows takes.
    fn table_bytes(&self, flows: usize) -> u64;

    /// What it reports, from the flows of all cores; `stages` were made by [`Function::stage`].
    fn report(&self, stages: &[&dyn Stage], now: Stamp) -> Vec<FunctionReport>;
}

/// Why a function could not be made from its options.
pub(crate) enum MakeError {
    /// A wrong name or type.
    Toml(toml::de::Error),
    /// A value that makes no sense.
    Option(OptionError),
}

#[derive(Clone, Copy)]
struct Maker {
    info: FunctionInfo,
    make: fn(ValueDeserializer<'_>) -> Result<Arc<dyn Function>, MakeError>,
}

impl Registry {
    /// The stock functions.
    pub fn stock() -> Registry {
        struct All(Registry);
        impl nfs::Visitor for All {
            fn visit<F: NetworkFunction>(&mut self) {
                self.0.add::<F>();
            }
        }
        let mut all = All(Registry { makers: Vec::new() });
        nfs::for_each(&mut all);
        all.0
    }

    /// Adds a function of your own; it replaces one of the same name.
    pub fn add<F: NetworkFunction>(&mut self) {
        self.makers.retain(|maker| maker.info.name != F::NAME);
        self.makers.push(Maker { info: info::<F>(), make: make::<F> });
    }

    /// What is known of each function.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionInfo> {
        self.makers.iter().map(|maker| &maker.info)
    }

    /// Makes the function called `name`; `None` if there is none.
    pub(crate) fn make(
        &self,
        name: &str,
        options: ValueDeserializer<'_>,
    ) -> Option<Result<Arc<dyn Function>, MakeError>> {
        let maker = self.makers.iter().find(|maker| maker.info.name == name)?;
        Some((maker.make)(options))
    }
}

/// Gives a function's stages; the `Arc` is shared by all cores.
struct Configured<F>(Arc<F>);

impl<F: NetworkFunction> Function for Configured<F> {
    fn info(&self) -> FunctionInfo {
        info::<F>()
    }

    fn stage(&self, spec: StageSpec) -> Result<Box<dyn Stage>, OutOfMemory> {
        Ok(Box::new(FunctionStage::new(Arc::clone(&self.0), spec)?))
    }

    fn table_bytes(&self, flows: usize) -> u64 {
        FlowTable::<F::Key, F::State>::bytes(flows)
    }

    fn report(&self, stages: &[&dyn Stage], now: Stamp) -> Vec<FunctionReport> {
        let stages = stages.iter().filter_map(|stage| stage.as_any().downcast_ref::<FunctionStage<F>>());
        self.0.report(&mut stages.flat_map(|stage| stage.flows(now)), now)
    }
}

fn make<F: NetworkFunction>(options: ValueDeserializer<'_>) -> Result<Arc<dyn Function>, MakeError> {
    let options = F::Options::deserialize(options).map_err(MakeError::Toml)?;
    let function = F::new(options).map_err(MakeError::Option)?;
    Ok(Arc::new(Configured(Arc::new(function))))
}

fn info<F: NetworkFunction>() -> FunctionInfo {
    FunctionInfo {
        name: F::NAME,
        summary: F::SUMMARY,
        spec: F::SPEC,
        options: F::OPTIONS,
        drop_reasons: F::DROP_REASONS,
        events: F::EVENTS,
        edits: F::EDITS,
        sharding: F::Key::SHARDING,
        key_bytes: size_of::<F::Key>(),
        meta_bytes: size_of::<F::Meta>(),
        state_bytes: size_of::<F::State>(),
    }
}
