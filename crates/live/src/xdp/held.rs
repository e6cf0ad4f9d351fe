//! A program of another crate, held at an interface in its driver.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::link::{self, AttachMode};
use super::pins::{Pin, Pins};
use crate::packet_socket;
use crate::{Interface, LiveError};

/// Holds a program at an interface. Dropping it takes the program off, and so does the end of the process, unless the program is to
/// stay: then it has a name in a BPF file system, which [`Pins::unblock`] removes.
pub struct Held {
    /// Goes first: what is held by a name alone comes off a moment after the name is gone.
    pin: Option<Pin>,
    _link: OwnedFd,
    /// As long as it is open the card takes packets for other stations, too.
    _sees_all: Option<OwnedFd>,
}

/// How a program is [held](Held::attach).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Whether it may [outlive](Held::outlive) this process.
    pub stays: bool,
    /// Whether it gets packets whomever they are for, as long as this process lives; else those for this station and groups.
    pub sees_all: bool,
}

impl Held {
    /// Attaches a program, in the place of one that a dead process left there, if one did: no packet meets neither. Where it
    /// does not stay, the name that it had is gone.
    ///
    /// # Errors
    /// [`LiveError`] if the driver has no XDP, another program is there, this process may not, or what stays cannot have a name.
    pub fn attach(
        program: BorrowedFd<'_>,
        interface: &Interface,
        pins: &Pins,
        Holding { stays, sees_all }: Holding,
    ) -> Result<Held, LiveError> {
        // One in the network stack is not taken over, but is in the way: the kernel says so.
        let found = pins.take_over(interface, AttachMode::Native, program);
        let (link, found) = match found {
            Some((link, pin)) => (link, Some(pin)),
            None => {
                let attached = link::create(program, interface.index, link::NATIVE);
                let what = || {
                    let name = &interface.name;
                    format!(
                        "cannot attach a program to {name}: its driver lacks XDP, or there is a program already"
                    )
                };
                (attached.map_err(|error| LiveError::of(what(), error))?, None)
            }
        };
        let pin = match (stays, found) {
            (true, Some(pin)) => Some(pin),
            (true, None) => Some(pins.pin(interface, link.as_fd(), AttachMode::Native)?),
            (false, found) => {
                found.into_iter().for_each(Pin::remove);
                None
            }
        };
        let sees_all = sees_all.then(|| packet_socket::sees_all(interface)).transpose()?;
        let mut held = Held { pin, _link: link, _sees_all: sees_all };
        held.outlive(false);
        Ok(held)
    }

    /// Whether the program stays when this value is dropped, as it does when the process is killed; of one that
    /// [`stays`](Held::attach) alone. It does not unless this is called.
    pub fn outlive(&mut self, outlives: bool) {
        self.pin.iter_mut().for_each(|pin| pin.outlives = outlives);
    }
}
