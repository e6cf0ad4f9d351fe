//! What an interface received and sent, and what became of packets that did not leave.

/// What one interface counts, as Paceline sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets received.
    pub received: u64,
    /// Their bytes, without the check sequence.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received packets of which a checksum was left to a card, and was computed here; each segment counts where a packet
    /// was segmented.
    pub completed: u64,
    /// Packets that were not received, or not sent, in the order of [`Lost::ALL`].
    pub lost: [u64; Lost::ALL.len()],
}

impl InterfaceCounters {
    /// Adds what another link of the same interface counted.
    pub(crate) fn add(&mut self, other: &InterfaceCounters) {
        let InterfaceCounters { received, received_bytes, sent, sent_bytes, completed, lost } = other;
        self.received += received;
        self.received_bytes += received_bytes;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.completed += completed;
        self.lost.iter_mut().zip(lost).for_each(|(sum, count)| *sum += count);
    }

    #[inline]
    pub(crate) fn lose(&mut self, why: Lost) {
        self.lost[why as usize] += 1;
    }
}

/// Why a packet did not come in, or did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It arrived while no frame was free.
    NoBuffer,
    /// It is longer than a frame, as one that a system has merged (GRO) may be.
    TooLong,
    /// The kernel dropped it before it was received: its queue was full.
    QueueFull,
    /// It came by a queue of the interface that has no socket: a new one, or one that cannot have any.
    NoSocket,
    /// The interface takes no packets: its queue stayed full.
    RingFull,
    /// The interface is down, or gone.
    LinkDown,
    /// The kernel refused it.
    Refused,
    /// It was to be segmented, and is not what can be.
    NotSegmented,
    /// It was for the host's own stack, which does not see packets here.
    ForHost,
    /// There is no other interface for it to leave by.
    NoWayOut,
}

impl Lost {
    /// All, in order.
    pub const ALL: [Lost; 10] = [
        Lost::NoBuffer,
        Lost::TooLong,
        Lost::QueueFull,
        Lost::NoSocket,
        Lost::RingFull,
        Lost::LinkDown,
        Lost::Refused,
        Lost::NotSegmented,
        Lost::ForHost,
        Lost::NoWayOut,
    ];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Lost::NoBuffer => "no-buffer",
            Lost::TooLong => "too-long",
            Lost::QueueFull => "queue-full",
            Lost::NoSocket => "no-socket",
            Lost::RingFull => "ring-full",
            Lost::LinkDown => "link-down",
            Lost::Refused => "refused",
            Lost::NotSegmented => "not-segmented",
            Lost::ForHost => "for-host",
            Lost::NoWayOut => "no-way-out",
        }
    }
}
