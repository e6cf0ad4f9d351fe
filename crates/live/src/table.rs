//! The indirection table by which the XDP programs of all interfaces spread packets over cores, while entries move.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::LiveError;
use crate::xdp::{GracePeriod, XdpProgram};
use crate::xdp_link::lock;

/// The table in force. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SpreadTable(Arc<Mutex<InForce>>);

/// The table in force: see [`SpreadTable`]. While it is locked it stays as it is: an interface that is opened
/// meanwhile has the same one.
pub(crate) struct InForce {
    /// By entry.
    pub(crate) owners: Vec<u16>,
    /// By interface, the program there, if there is one.
    pub(crate) programs: Vec<Option<Arc<Mutex<XdpProgram>>>>,
    grace: GracePeriod,
}

impl fmt::Debug for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InForce").field("owners", &self.owners).finish_non_exhaustive()
    }
}

impl SpreadTable {
    /// That of programs that were attached with these owners.
    ///
    /// # Errors
    /// As [`GracePeriod::new`].
    pub(crate) fn new(
        owners: Vec<u16>,
        programs: Vec<Option<Arc<Mutex<XdpProgram>>>>,
    ) -> Result<SpreadTable, LiveError> {
        Ok(SpreadTable(Arc::new(Mutex::new(InForce { owners, programs, grace: GracePeriod::new()? }))))
    }

    /// Gives entries to other cores, `(entry, core)` each, at all interfaces. When this returns, all packets that were
    /// spread by the table before are in the rings of their core's sockets, and there will be no more: it waits for a
    /// [grace period](GracePeriod), which takes some milliseconds.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses. Then some packets may go by the table before.
    pub fn give(&self, moves: impl Iterator<Item = (u16, u16)>) -> Result<(), LiveError> {
        let mut in_force = self.lock();
        for (entry, core) in moves {
            in_force.owners[usize::from(entry)] = core;
            for program in in_force.programs.iter().flatten() {
                lock(program).set_owner(entry.into(), core.into())?;
            }
        }
        in_force.grace.wait()
    }

    /// By entry, the core that gets its packets.
    pub fn owners(&self) -> Vec<u16> {
        self.lock().owners.clone()
    }

    /// Locks the table. No thread panics while it has it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, InForce> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
