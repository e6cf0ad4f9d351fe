//! Paceline's stock network functions.
//!
//! | function | key | what it does | written from |
//! |---|---|---|---|
//! | [`access-list`](access_list) | connection | passes connections that its rules allow, in both directions | FAJITA App. A.1 |
//! | [`conntrack`] | connection | follows TCP connections, and drops what cannot belong to one | SCR Table 1, RFC 9293 |
//! | [`ddos`] | source address | refuses sources that send too many packets | SCR Table 1 |
//! | [`destination-policer`](policer) | destination address | holds the traffic to each address to a rate | FAJITA App. A.1, RFC 2697 |
//! | [`firewall`] | connection | judges packets by rules and by the state of their connection | Linux nf_conntrack, RFC 9293 |
//! | [`flow-statistics`](statistics) | 5-tuple | keeps a record of each flow | FAJITA App. A.1, RFC 7012 |
//! | [`heavy-hitters`](heavy_hitters) | 5-tuple | measures flows and finds the large ones | SCR Table 1 |
//! | [`load-balancer`](load_balancer) | 5-tuple | spreads the flows to a service over its backends | FAJITA App. A.1, Maglev §3.4 |
//! | [`nat`] | inside endpoint | lets inside hosts share external IPv4 addresses, by ports | RFC 4787, RFC 5382 |
//! | [`pattern-scanner`](pattern_scanner) | none | looks for byte patterns in payloads | Aho and Corasick 1975, Snort |
//! | [`policer`] | 5-tuple, or host inside | holds each flow, or each host inside, to a rate with a token bucket | SCR Table 1, RFC 2697 |
//! | [`port-knock`](port_knock) | source address | opens to sources that know a sequence of ports | SCR Fig. 12 |
//! | [`port-scan`](port_scan) | source address | finds sources that try many ports | FAJITA App. A.1 |
//! | [`rate-limiter`](rate_limiter) | 5-tuple | lets each flow send so many packets a second | FAJITA §3 |
//! | [`source-statistics`](statistics) | source address | keeps a record of each source | FAJITA App. A.1, RFC 7012 |
//! | [`synthetic`] | 5-tuple | makes as many memory accesses as it is told | FAJITA App. A.1 |
//!
//! One file each: its page says what it does, its options with their units, its drop reasons and
//! events, and what happens when a flow expires or the table is full. [`for_each`] visits them all.
//!
//! A function has no clock, no random numbers and no threads; it allocates only to be set up and to
//! report.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

use nf::{NetworkFunction, prefix};

mod common;
mod ends;
mod firsts;
mod inside_host;
mod selector;
mod token_bucket;
mod window;

pub mod access_list;
pub mod conntrack;
pub mod ddos;
pub mod firewall;
pub mod heavy_hitters;
pub mod load_balancer;
pub mod nat;
pub mod pattern_scanner;
pub mod policer;
pub mod port_knock;
pub mod port_scan;
pub mod rate_limiter;
pub mod statistics;
pub mod synthetic;

pub use access_list::AccessList;
pub use common::{CompactKey, Metered, PassOrDrop};
pub use conntrack::Conntrack;
pub use ddos::Ddos;
pub use firewall::Firewall;
pub use heavy_hitters::HeavyHitters;
pub use inside_host::InsideHost;
pub use load_balancer::LoadBalancer;
pub use nat::Nat;
pub use pattern_scanner::PatternScanner;
pub use policer::{DestinationPolicer, HostPolicer, Markable, Policer};
pub use port_knock::PortKnock;
pub use port_scan::PortScan;
pub use rate_limiter::RateLimiter;
pub use statistics::{FlowStatistics, SourceStatistics};
pub use synthetic::Synthetic;
pub use token_bucket::{Debt, TokenBucket};
pub use window::SlidingCount;

/// Something to do with every stock function, whatever its types: [`for_each`] calls it.
pub trait Visitor {
    /// Called once for each function.
    fn visit<F: NetworkFunction>(&mut self);

    /// Called once for a function of two types: it is an `A`, or a `B` where `is_b` says so of its options. Visits `A`
    /// alone, if not written otherwise.
    fn visit_either<A, B>(&mut self, is_b: fn(&A::Options) -> bool)
    where
        A: NetworkFunction,
        B: NetworkFunction<Options = A::Options>,
    {
        let _ = is_b;
        self.visit::<A>();
    }
}

/// The list of stock functions: the one place that a new one is added to.
macro_rules! stock_functions {
    ($($function:ty $(, or $other:ty, if $is_other:expr)?;)*) => {
        /// Visits every stock function, in the order of their names.
        pub fn for_each(visitor: &mut impl Visitor) {
            $(stock_functions!(@visit visitor $function $(, $other, $is_other)?);)*
        }

        #[cfg(test)]
        #[test]
        fn documented_defaults_are_the_default() {
            $(tests::documented_defaults_are_the_default::<$function>();)*
        }
    };
    (@visit $visitor:ident $function:ty) => { $visitor.visit::<$function>() };
    (@visit $visitor:ident $function:ty, $other:ty, $is_other:expr) => {
        $visitor.visit_either::<$function, $other>($is_other)
    };
}

#[cfg(test)]
mod test_util;
#[cfg(test)]
mod tests;

stock_functions! {
    AccessList;
    Conntrack, or conntrack::Recorder, if |options| options.records > 0;
    Ddos;
    DestinationPolicer;
    Firewall;
    FlowStatistics;
    HeavyHitters;
    LoadBalancer, or LoadBalancer<nf::Connection>, if |options| options.rewrite_answers;
    Nat;
    PatternScanner;
    Policer, or HostPolicer, if |options| options.by == policer::By::Host;
    PortKnock;
    PortScan;
    RateLimiter;
    SourceStatistics;
    Synthetic;
}
