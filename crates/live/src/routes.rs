//! The thread that follows the kernel's routes and neighbours for those that forward packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::LiveError;
use crate::rights;
use crate::route::{Forwarder, Tables};

/// How often the thread looks: so long a new neighbour waits before the kernel is asked for it.
const LOOK: Duration = Duration::from_millis(2);

/// Follows the routing tables of the network namespace in which it was started, until it is dropped.
pub struct Routes {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Routes {
    /// Reads the tables, and starts to follow them. Returns forwarders for so many threads that have ports.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel does not tell them, or has policy rules, which are not followed: packets would leave by other
    /// ways than the kernel's.
    pub fn start(threads: usize) -> Result<(Routes, Vec<Forwarder>), LiveError> {
        let mut tables = Tables::open()?;
        let forwarders = (0..threads).map(|_| tables.forwarder()).collect();
        let rules = tables.policy_rules();
        if rules > 0 {
            return Err(LiveError::refused(
                format!(
                    "this host has {rules} policy rules (`ip rule`; a VRF makes some), and a router here goes by the tables `local` \
                     and `main` alone: packets would leave by other ways than the kernel's"
                ),
                "Have routes in the main table, and delete the rules: ip rule show, ip rule del; or run it in a network namespace \
                 without them.",
            ));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new().name("routes".to_owned()).spawn(move || {
            // Where that fails the thread has what the process has.
            let _ = rights::keep(&rights::FOR_NEIGHBOURS);
            while !told.load(Ordering::Relaxed) {
                // What failed is tried again; until then packets go by what was last known.
                let _ = tables.update();
                thread::sleep(LOOK);
            }
        });
        let thread = Some(thread.map_err(|error| LiveError::of("cannot start a thread for routes", error))?);
        Ok((Routes { stop, thread }, forwarders))
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
