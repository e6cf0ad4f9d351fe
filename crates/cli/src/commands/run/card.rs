//! The card that looks flows up for `paceline run` on interfaces: the XDP program, which is told on a thread beside the cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::Plan;
use engine::strategies::CardLink;
use live::CardRules;

use super::options::{Place, RunArgs, SocketArg, TAP, Way};
use crate::failure::Failure;

/// How long it leaves what cores tell: some hundred updates of each have room.
const NAP: Duration = Duration::from_millis(1);
/// How often it looks whether packets come without what the card has to say.
const LOOK: Duration = Duration::from_millis(100);

/// The plan with the card that was asked for. Without a word there is none: on a processor its look-ups cost more than they save.
pub fn with_card(args: &RunArgs, place: &Place<'_>, plan: Plan) -> Result<Plan, Failure> {
    if args.card.card_flows.unwrap_or(0) == 0 {
        return Ok(Plan { card_flows: 0, ..plan });
    }
    let why = match args.live.socket {
        _ if place.names.iter().any(|name| name.starts_with(TAP)) => {
            "a TAP interface has no XDP program\nLeave out --card-flows, or use other interfaces."
        }
        SocketArg::Packet => {
            "before AF_PACKET there is no XDP program\nLeave out --socket packet, or --card-flows."
        }
        SocketArg::Auto if place.way == Way::Mirror => {
            "a mirror uses AF_PACKET, which has no XDP program\nGive --socket xdp: then the host gets no packets of the interface."
        }
        _ => return Ok(Plan { card: Some(CardLink::default()), ..plan }),
    };
    Err(Failure::usage(format!("--card-flows has the XDP program look flows up, and {why}")))
}

/// The thread that tells the card what cores say. Dropped at the end of the run.
pub struct Telling {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Telling {
    /// Has a card say what the cores of a plan tell, if there is one. `say` gets a line, for people, if it cannot.
    pub fn start(plan: &Plan, card: Option<CardRules>, say: fn(&str)) -> Option<Telling> {
        let (link, card) = (plan.card.clone()?, card?);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || tell(&link, &card, &over, say));
        Some(Telling { is_over, thread: Some(thread) })
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tell(link: &CardLink, card: &CardRules, is_over: &AtomicBool, say: fn(&str)) {
    let mut looked = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        link.take(|update| card.set(&zerocopy::transmute!(update.flow), update.reference));
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if let Some(interface) = card.without_metadata() {
                link.close();
                say(&format!(
                    "note: {interface}: its driver has no XDP metadata, so nothing can be said of packets' flows: from here on it is as \
                     without --card-flows"
                ));
                return;
            }
        }
        thread::sleep(NAP);
    }
}
