//! The errors of describing a traffic model.

use thiserror::Error;

/// Why there is no such model. The first line says what is wrong, further ones what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// No model has this name.
    #[error("there is no model `{name}`\n{}There are: {known}.", meant(name, known))]
    UnknownModel {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The model has no such option.
    #[error("{model} has no option `{option}`\n{}It has: {known}.", meant(option, known))]
    UnknownOption {
        /// The model.
        model: &'static str,
        /// The option.
        option: String,
        /// Those that it has.
        known: String,
    },
    /// An option came twice.
    #[error("`{option}` is given twice\nGive it once.")]
    Twice {
        /// The option.
        option: String,
    },
    /// An option without its value.
    #[error(
        "`{text}` is no option with its value\nWrite NAME:OPTION=VALUE,OPTION=VALUE, such as zipf:flows=1000,a=1.1."
    )]
    NoValue {
        /// What stands there.
        text: String,
    },
    /// An option has a value that it cannot have, by itself or beside the others.
    #[error("{option}={value}: {needs}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        needs: String,
    },
}

/// The name of a list that was probably meant, as a sentence.
fn meant(name: &str, known: &str) -> String {
    names::nearest(name, known.split(", "))
        .map_or_else(String::new, |near| format!("Did you mean `{near}`? "))
}
