//! What the tracker counts: the names of its drops and events, and their indices.

/// Indices into `DROP_REASONS`.
pub(super) mod reason {
    pub(crate) const FLAGS: u8 = 0;
    pub(crate) const NO_CONNECTION: u8 = 1;
    pub(crate) const TRANSITION: u8 = 2;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SEQ: u8 = 4;
    pub(crate) const ACK: u8 = 5;
    pub(crate) const TABLE_FULL: u8 = 6;
    pub(crate) const FROM_OUTSIDE: u8 = 7;
    pub(crate) const NO_REQUEST: u8 = 8;
    pub(crate) const UNRELATED: u8 = 9;
}

/// Indices into `EVENTS`.
pub(super) mod event {
    pub(crate) const OPENED: usize = 0;
    pub(crate) const PICKED_UP: usize = 1;
    pub(crate) const REOPENED: usize = 2;
    pub(crate) const ESTABLISHED: usize = 3;
    pub(crate) const CLOSED_BY_FIN: usize = 4;
    pub(crate) const CLOSED_BY_RESET: usize = 5;
    pub(crate) const IGNORED: usize = 6;
    pub(crate) const PASSED_INVALID: usize = 7;
    pub(crate) const PASSED_OUT_OF_WINDOW: usize = 8;
    pub(crate) const RESYNCHRONISED: usize = 9;
    pub(crate) const RELATED: usize = 10;
}

pub(super) const DROP_REASONS: &[&str] = &[
    "invalid-flags",
    "no-connection",
    "invalid-transition",
    "invalid-reset",
    "seq-out-of-window",
    "ack-out-of-window",
    "table-full",
    "opened-from-outside",
    "reply-without-request",
    "unrelated-error",
];

pub(super) const EVENTS: &[&str] = &[
    "opened",
    "picked-up",
    "reopened",
    "established",
    "closed-by-fin",
    "closed-by-reset",
    "ignored",
    "passed-invalid",
    "passed-out-of-window",
    "resynchronised",
    "related",
];
