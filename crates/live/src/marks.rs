//! Marks: how far a port's queues had come when a mark was asked for, and whether all packets up to there have been
//! received and have left.
//!
//! ```text
//!   mark 1 asked for   the rings have come to 7 and 12   all up to there received   and what was to leave has left
//!          |---------------------- receiving -----------------|------- leaving -------| mark 1 is passed
//!                                    mark 2 asked for ........................................| receiving ...
//! ```
//!
//! One mark is under way at a time. One that is asked for meanwhile begins when that one is passed.

/// The marks of a port.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The last one that was passed.
    passed: u64,
    under_way: Option<Stage>,
    /// Whether the one behind that under way was asked for.
    is_next_asked: bool,
}

/// How far a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Packets up to it are in the rings.
    Receiving,
    /// All of them were received. Some may wait to be sent.
    Leaving,
}

impl Marks {
    /// Asks for a mark: returns its number, and whether it begins now: then how far the rings have come is to
    /// be noted.
    pub(crate) fn ask(&mut self) -> (u64, bool) {
        match self.under_way {
            None => {
                self.under_way = Some(Stage::Receiving);
                (self.passed + 1, true)
            }
            Some(_) => {
                self.is_next_asked = true;
                (self.passed + 2, false)
            }
        }
    }

    /// How far the mark under way is, if one is.
    #[inline]
    pub(crate) fn stage(&self) -> Option<Stage> {
        self.under_way
    }

    /// All packets up to the mark under way were received: what is to leave is to be noted.
    pub(crate) fn received(&mut self) {
        self.under_way = Some(Stage::Leaving);
    }

    /// What was to leave then has left. Says whether the next mark begins now.
    pub(crate) fn left(&mut self) -> bool {
        self.passed += 1;
        let begins = std::mem::take(&mut self.is_next_asked);
        self.under_way = begins.then_some(Stage::Receiving);
        begins
    }

    /// The last mark that was passed.
    #[inline]
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_asked_for_while_another_is_under_way_begins_behind_it() {
        let mut marks = Marks::default();
        assert_eq!((marks.stage(), marks.passed()), (None, 0));
        assert_eq!(marks.ask(), (1, true));
        assert_eq!([marks.ask(), marks.ask()], [(2, false); 2], "one for all who ask meanwhile");
        marks.received();
        assert_eq!((marks.stage(), marks.passed()), (Some(Stage::Leaving), 0));
        assert_eq!(marks.ask(), (2, false));
        assert!(marks.left(), "the second begins");
        assert_eq!((marks.stage(), marks.passed()), (Some(Stage::Receiving), 1));
        marks.received();
        assert!(!marks.left());
        assert_eq!((marks.stage(), marks.passed()), (None, 2));
        assert_eq!(marks.ask(), (3, true));
    }
}
