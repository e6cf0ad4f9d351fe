//! Classes of traffic: which packets have priority, `[[class]]` of a chain file (Dyssect §IV-A).
//!
//! A flow has to be in one class with all its packets, in both directions. So a class looks at nothing but header fields that
//! are hashed, as the hash itself does: they are part of the key of each function that has state, and where keys are symmetric,
//! source and destination are both among them and may be exchanged.

use nf::prefix::PrefixSet;
use serde::Deserialize;
use strategy::HashFields;
use wire::{Addr, Fields, Headers};

/// Which packets have priority: the first class that a packet fits decides, and one of no class has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(Vec<Class>);

/// A class as its chain file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) priority: Priority,
    /// One of the addresses that are hashed lies in it; empty: any does.
    pub(crate) prefixes: PrefixSet,
    /// One of the ports that are hashed is among them; empty: any is.
    pub(crate) ports: Vec<u16>,
}

/// What a class is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Priority {
    /// The objective binds it, and no other core steps its packets.
    High,
    /// As packets of no class.
    #[default]
    Low,
}

impl Classes {
    pub(crate) fn new(classes: Vec<Class>) -> Classes {
        Classes(classes)
    }

    /// Packets from or to these addresses have priority.
    pub fn of_hosts(addrs: impl IntoIterator<Item = Addr>) -> Classes {
        let prefixes = PrefixSet::of(addrs);
        Classes(vec![Class { priority: Priority::High, prefixes, ports: Vec::new() }])
    }

    /// Whether all packets are alike.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a packet has priority, as it looks to a hash of these fields.
    pub fn has_priority(&self, hashed: HashFields, headers: &Headers) -> bool {
        let fields = hashed.fields();
        let addrs = [(Fields::SRC_ADDR, headers.src), (Fields::DST_ADDR, headers.dst)];
        let ports = [(Fields::SRC_PORT, headers.src_port), (Fields::DST_PORT, headers.dst_port)];
        let fits = |class: &&Class| {
            let of_addr = |(field, addr)| fields.contains(field) && class.prefixes.contains(addr);
            let of_port = |(field, port)| fields.contains(field) && class.ports.contains(&port);
            (class.prefixes.is_empty() || addrs.into_iter().any(of_addr))
                && (class.ports.is_empty() || ports.into_iter().any(of_port))
        };
        self.0.iter().find(fits).is_some_and(|class| class.priority == Priority::High)
    }

    /// Whether these fields decide each class.
    ///
    /// # Errors
    /// Says which class they do not decide, and why.
    pub(crate) fn decided_by(&self, hashed: HashFields) -> Result<(), String> {
        for (number, class) in (1..).zip(&self.0) {
            let lacks = |fields| !hashed.fields().intersects(fields);
            let looks_at = match class {
                _ if !class.prefixes.is_empty() && lacks(Fields::ADDRS) => "addresses",
                _ if !class.ports.is_empty() && lacks(Fields::SRC_PORT | Fields::DST_PORT) => "ports",
                _ => continue,
            };
            return Err(format!(
                "class {number} is told by {looks_at}, and packets of one flow are told by their {hashed}: they might be in \
                 two classes"
            ));
        }
        Ok(())
    }
}
