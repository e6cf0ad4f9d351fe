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
    /// What route mode does not follow, in sentences for people.
    pub remarks: Vec<String>,
}

impl Routes {
    /// Reads the tables, and starts to follow them. Returns forwarders for so many threads that have ports.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel does not tell them.
    pub fn start(threads: usize) -> Result<(Routes, Vec<Forwarder>), LiveError> {
        let mut tables = Tables::open()?;
        let forwarders = (0..threads).map(|_| tables.forwarder()).collect();
        let rules = tables.policy_rules();
        let remark =
            format!("{rules} policy rules (`ip rule`) are not followed: packets go by the main table");
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
        let remarks = if rules > 0 { vec![remark] } else { Vec::new() };
        Ok((Routes { stop, thread, remarks }, forwarders))
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
