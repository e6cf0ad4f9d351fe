//! What the codes of errors mean: `paceline explain` prints it. Pages are in `codes.rs`; which error has which code is in
//! `errors.rs`, or where a failure is made ([`Failure::coded`](crate::failure::Failure::coded)).

mod codes;
mod drops;
mod errors;

pub use codes::{ALL, Code, Page, Shown};
pub use drops::{Dropped, dropped, names as drop_reasons};

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
