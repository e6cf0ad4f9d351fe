//! What the codes of errors mean: `paceline explain` prints it. Pages are in `codes.rs`; which error has which code is in
//! `errors.rs`, or where a failure is made ([`Failure::coded`](crate::failure::Failure::coded)).

mod codes;
mod drops;
mod errors;

pub use codes::{ALL, Code};
pub use drops::{Dropped, dropped, names as drop_reasons};

/// What one code means.
pub struct Page {
    /// As errors and command lines write it: words with hyphens. It does not change from release to release.
    pub name: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// When it comes, and why.
    pub means: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// How to see it.
    pub shown: Shown,
}

/// How to see an error.
pub enum Shown {
    /// Lines for a shell, in the folder of the sources, of which the last one fails so.
    By(&'static str),
    /// What it takes, where a few lines are not enough. A unit test makes the error.
    Only(&'static str),
}

/// What can be told as a failure, and the page that says more.
pub trait Explained: std::fmt::Display {
    /// The code of that page. Text has that of wrong arguments, unless a failure is given another.
    fn explained_by(&self) -> Code {
        Code::Usage
    }
}

impl Code {
    /// Ends an error: the command that says more.
    pub fn hint(self) -> String {
        format!("`paceline explain {}`", self.page().name)
    }
}
