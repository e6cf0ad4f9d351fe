//! Which error has which code.

use engine::{
    ConfigError, InputError, NoParking, PlanError, ReloadError, RunError, SequencingError, SpeedError,
    VerifyError,
};
use io::capture::CaptureError;
use io::filter::FilterError;
use live::LiveError;
use measure::{BenchError, CostError, OnceError, TrialError};
use pipeline::EmulateError;
use sweep::JournalError;
use traffic::ModelError;
use xdp::clang::BuildError;
use xdp::load::LoadError;

use super::{Code, Explained};

impl Explained for String {}
impl Explained for &str {}
impl Explained for serde_json::Error {}
impl Explained for std::io::Error {}

impl<T: Explained> Explained for &T {
    fn explained_by(&self) -> Code {
        (*self).explained_by()
    }
}

impl Explained for ConfigError {
    fn explained_by(&self) -> Code {
        Code::ChainFile
    }
}

impl Explained for p4::Diagnostics {
    fn explained_by(&self) -> Code {
        Code::P4Program
    }
}

impl Explained for PlanError {
    fn explained_by(&self) -> Code {
        match self {
            PlanError::Cores { .. }
            | PlanError::SingleCore { .. }
            | PlanError::Replicas { .. }
            | PlanError::Rings { .. } => Code::NumberOfCores,
            PlanError::Memory { .. } | PlanError::SharedMemory { .. } => Code::Memory,
            PlanError::Payload { .. } => Code::PayloadFirst,
            PlanError::Promotion { .. } => Code::NoPromotion,
            PlanError::Classes { .. } => Code::Classes,
            PlanError::Conflict { .. } => Code::KeysConflict,
        }
    }
}

impl Explained for NoParking {
    fn explained_by(&self) -> Code {
        Code::NoParking
    }
}

impl Explained for ReloadError {
    fn explained_by(&self) -> Code {
        match self {
            ReloadError::Plan(error) => error.explained_by(),
            ReloadError::Parked(error) => error.explained_by(),
            ReloadError::OutOfMemory { .. } => Code::Memory,
            ReloadError::OwnPorts(_)
            | ReloadError::Fields { .. }
            | ReloadError::Sides
            | ReloadError::NotYet
            | ReloadError::Over => Code::RunRefused,
        }
    }
}

impl<E: std::fmt::Display> Explained for RunError<E> {
    fn explained_by(&self) -> Code {
        match self {
            RunError::OutOfMemory { .. } | RunError::NoStacks { .. } => Code::Memory,
            _ => Code::Defect,
        }
    }
}

impl Explained for VerifyError {
    fn explained_by(&self) -> Code {
        match self {
            VerifyError::Plan(error) => error.explained_by(),
            VerifyError::Input(error) => error.explained_by(),
            VerifyError::Run(error) => error.explained_by(),
            VerifyError::Unanswered { .. } => Code::Usage,
            VerifyError::Packets { .. } => Code::Different,
        }
    }
}

impl Explained for CaptureError {
    fn explained_by(&self) -> Code {
        match self {
            CaptureError::Open { .. } => Code::CannotRead,
            CaptureError::Directory { .. }
            | CaptureError::Empty { .. }
            | CaptureError::NotACapture { .. }
            | CaptureError::Dialect { .. } => Code::NotACapture,
            CaptureError::LinkType { .. } => Code::LinkType,
            CaptureError::Interface { .. } => Code::CaptureInterface,
            CaptureError::Truncated { .. } | CaptureError::Corrupt { .. } | CaptureError::Read { .. } => {
                Code::CutShort
            }
            // The type may grow: what is not known is about an output.
            _ => Code::CannotWrite,
        }
    }
}

impl Explained for InputError {
    fn explained_by(&self) -> Code {
        match self {
            InputError::Capture(error) => error.explained_by(),
            InputError::Cores { .. } | InputError::Twice { .. } | InputError::Leap { .. } => Code::History,
        }
    }
}

impl Explained for SequencingError {
    fn explained_by(&self) -> Code {
        Code::History
    }
}

impl Explained for FilterError {
    fn explained_by(&self) -> Code {
        match self {
            FilterError::Mistake { .. } => Code::Filter,
            FilterError::NoLibrary { .. } => Code::NoLibpcap,
        }
    }
}

impl Explained for ModelError {
    fn explained_by(&self) -> Code {
        match self {
            ModelError::UnknownModel { .. } | ModelError::UnknownOption { .. } => Code::UnknownName,
            ModelError::Twice { .. } | ModelError::NoValue { .. } | ModelError::Value { .. } => {
                Code::TrafficModel
            }
        }
    }
}

impl Explained for SpeedError {}

impl Explained for BenchError {
    fn explained_by(&self) -> Code {
        Code::CannotMeasure
    }
}

impl Explained for TrialError {
    fn explained_by(&self) -> Code {
        match self {
            TrialError::OutOfMemory => Code::Memory,
            error if error.is_defect() => Code::Defect,
            _ => Code::CannotMeasure,
        }
    }
}

impl Explained for CostError {
    fn explained_by(&self) -> Code {
        match self {
            CostError::Plan(error) => error.explained_by(),
            CostError::Bench(error) => error.explained_by(),
            CostError::Trial(error) => error.explained_by(),
        }
    }
}

impl Explained for OnceError {
    fn explained_by(&self) -> Code {
        match self {
            OnceError::Bench(error) => error.explained_by(),
            OnceError::Trial(error) => error.explained_by(),
        }
    }
}

impl Explained for EmulateError {
    fn explained_by(&self) -> Code {
        match self {
            EmulateError::Setup(_) => Code::NotEmulated,
            EmulateError::Stuck(_) => Code::Defect,
        }
    }
}

impl Explained for JournalError {
    fn explained_by(&self) -> Code {
        Code::SweepFolder
    }
}

impl Explained for LiveError {
    fn explained_by(&self) -> Code {
        match self {
            LiveError::NoInterface { .. } => Code::NoInterface,
            LiveError::Down { .. } => Code::InterfaceDown,
            LiveError::NotEthernet { .. } => Code::NotEthernet,
            LiveError::Rights { .. } => Code::Rights,
            LiveError::System { .. } => Code::SystemRefused,
            LiveError::Refused { .. } => Code::InterfaceRefused,
        }
    }
}

impl Explained for xdp::live::LiveError {
    fn explained_by(&self) -> Code {
        match self {
            xdp::live::LiveError::Load(error) => error.explained_by(),
            xdp::live::LiveError::Interface(error) => error.explained_by(),
            xdp::live::LiveError::Refused(_) => Code::InterfaceRefused,
            xdp::live::LiveError::Entries(_) => Code::TestFile,
            xdp::live::LiveError::Failed { .. } => Code::SystemRefused,
        }
    }
}

impl Explained for sequencer::CoresOutOfRange {
    fn explained_by(&self) -> Code {
        Code::NumberOfCores
    }
}

impl Explained for LoadError {
    fn explained_by(&self) -> Code {
        match self {
            LoadError::NoRights(_) => Code::Rights,
            LoadError::Refused { .. } => Code::Defect,
            LoadError::Failed { .. } => Code::SystemRefused,
        }
    }
}

impl Explained for BuildError {
    fn explained_by(&self) -> Code {
        match self {
            BuildError::Write { .. } => Code::CannotWrite,
            BuildError::Read { .. } => Code::CannotRead,
            BuildError::NoClang { .. } => Code::NoClang,
            BuildError::Refused { .. } => Code::Defect,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::explain::{ALL, Shown};
    use crate::failure::Failure;

    fn refused() -> io::Error {
        io::Error::other("no")
    }

    /// Errors for which a page has no example in a few lines.
    fn errors() -> Vec<Failure> {
        let (what, name) = ("it cannot".to_owned(), "eth0".to_owned());
        let live = [
            LiveError::Down { name: name.clone() },
            LiveError::NotEthernet { name, hardware: 65534 },
            LiveError::Rights { what: what.clone(), error: refused(), lacks: Vec::new() },
            LiveError::System { what: what.clone(), error: refused(), help: None },
            LiveError::Refused { what: what.clone(), help: what.clone() },
        ];
        let others = [
            Failure::usage(FilterError::NoLibrary { why: what.clone() }),
            Failure::usage(PlanError::Classes { strategy: "dyssect", chain: "edge".to_owned(), why: what }),
            Failure::usage(ReloadError::Sides),
            Failure::difference("other bytes"),
            Failure::defect("it never ends"),
        ];
        live.into_iter().map(Failure::usage).chain(others).collect()
    }

    /// The others are held to their examples by `tests/explain.rs`.
    #[test]
    fn errors_without_an_example_have_their_codes() {
        let codes: Vec<Code> = errors()
            .iter()
            .map(|failure| match failure {
                Failure::Told(_, code, _) => *code,
                other => panic!("{other}"),
            })
            .collect();
        for code in ALL {
            let is_only = matches!(code.page().shown, Shown::Only(_));
            assert_eq!(codes.contains(code), is_only, "{}", code.page().name);
        }
    }

    #[test]
    fn names_are_words_that_no_two_codes_have() {
        let mut names: Vec<&str> = ALL.iter().map(|code| code.page().name).collect();
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
