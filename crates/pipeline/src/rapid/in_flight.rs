//! Which flows have packets in a span: for the lossless mode.

use crate::cam::Cam;

/// Packets of each flow in the span of a function.
#[derive(Debug)]
pub struct InFlight {
    flows: Cam,
    packets: Vec<u32>,
}

impl InFlight {
    /// For a span of so many registers.
    pub fn new(registers: usize) -> InFlight {
        InFlight { flows: Cam::new(registers + 1), packets: vec![0; registers + 1] }
    }

    /// A packet goes in.
    pub fn enter(&mut self, key: u64) {
        let place = self.flows.find(key).unwrap_or_else(|| {
            let place = self.flows.insert(key).expect("no more flows than registers");
            self.packets[place] = 0;
            place
        });
        self.packets[place] += 1;
    }

    /// A packet comes out.
    pub fn leave(&mut self, key: u64) {
        let Some(place) = self.flows.find(key) else { return };
        self.packets[place] -= 1;
        if self.packets[place] == 0 {
            self.flows.remove(place);
        }
    }

    /// Whether packets of the flow are inside.
    pub fn has(&self, key: u64) -> bool {
        self.flows.find(key).is_some()
    }

    /// Flows with packets inside.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
}
