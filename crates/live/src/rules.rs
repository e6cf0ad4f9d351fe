//! What the XDP programs of all interfaces say of flows before their packets, as far as cores tell them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::Reference;

use crate::xdp::XdpProgram;
use crate::xdp_link::lock;

/// By interface, the program there, if there is one.
type Programs = Vec<Option<Arc<Mutex<XdpProgram>>>>;

/// A card that looks flows up (Dyssect §IV-C), as the XDP programs of a port's interfaces are it: see
/// [`Steering::card_flows`](crate::xdp::Steering::card_flows). Clones are the same one. For a thread beside those that have packets:
/// each call is a system call for each interface.
#[derive(Clone)]
pub struct CardRules(Arc<Mutex<Programs>>);

impl fmt::Debug for CardRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CardRules").finish_non_exhaustive()
    }
}

impl CardRules {
    pub(crate) fn new(programs: Programs) -> CardRules {
        CardRules(Arc::new(Mutex::new(programs)))
    }

    /// Has packets of a flow come with this reference from now on, by whichever interface; with [`Reference::NONE`], without one.
    /// What the kernel has no room for is lost: the caller has to set it again. So is what an interface was told
    /// that went away. `flow` is as [`XdpProgram::set_reference`] takes it.
    pub fn set(&self, flow: &[u8; 40], reference: Reference) {
        for program in self.lock().iter().flatten() {
            let _ = lock(program).set_reference(flow, reference);
        }
    }

    /// An interface by which packets came that had no room for a reference, by its name: its driver has no XDP metadata.
    pub fn without_metadata(&self) -> Option<String> {
        let lacks = |program: &XdpProgram| program.counters().is_ok_and(|counts| counts.without_metadata > 0);
        let programs = self.lock();
        let mut programs = programs.iter().flatten().map(|program| lock(program));
        programs.find(|program| lacks(program)).map(|program| program.interface().name.clone())
    }

    /// An interface is gone, or back with another program.
    pub(crate) fn replace(&self, interface: usize, program: Option<&Arc<Mutex<XdpProgram>>>) {
        self.lock()[interface] = program.cloned();
    }

    /// Locks the programs. No thread panics while it has them.
    fn lock(&self) -> MutexGuard<'_, Programs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
