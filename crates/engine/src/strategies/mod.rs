//! One folder for each strategy.

pub(crate) mod dispatch;
pub(crate) mod egress;
pub(crate) mod fragments;
pub(crate) mod ingress;
pub(crate) mod plan;
pub(crate) mod rsspp;
pub(crate) mod scr;
