use crate::{Addr, Fields, Headers};

/// Header changes as data. A function states them; [`apply`] writes them.
///
/// A later function's edit of the same field replaces an earlier one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Edits {
    /// Which of the fields below are meant.
    set: Fields,
    src: Addr,
    dst: Addr,
    src_port: u16,
    dst_port: u16,
    ttl: u8,
    tos: u8,
    vlan: Option<VlanEdit>,
    src_mac: [u8; 6],
    dst_mac: [u8; 6],
}

/// A change of the outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanEdit {
    /// Rewrite the tag control information; on an untagged frame, nothing.
    Rewrite(u16),
    /// Add a tag (802.1Q, EtherType 0x8100) in front of what is there.
    Push(u16),
    /// Remove the outermost tag; on an untagged frame, nothing.
    Pop,
}

impl Edits {
    /// No change.
    pub const NONE: Edits = Edits {
        set: Fields::empty(),
        src: Addr::UNSPECIFIED,
        dst: Addr::UNSPECIFIED,
        src_port: 0,
        dst_port: 0,
        ttl: 0,
        tos: 0,
        vlan: None,
        src_mac: [0; 6],
        dst_mac: [0; 6],
    };

    /// Whether nothing changes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The fields that change.
    #[inline]
    pub fn fields(&self) -> Fields {
        self.set
    }

    /// Sets the source address. An address of the other family than the packet's is not applied.
    #[inline]
    pub fn set_src(&mut self, addr: Addr) {
        self.src = addr;
        self.set |= Fields::SRC_ADDR;
    }

    /// Sets the destination address, likewise.
    #[inline]
    pub fn set_dst(&mut self, addr: Addr) {
        self.dst = addr;
        self.set |= Fields::DST_ADDR;
    }

    /// Sets the source port; nothing happens to a packet without ports.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        self.src_port = port;
        self.set |= Fields::SRC_PORT;
    }

    /// Sets the destination port, likewise.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        self.dst_port = port;
        self.set |= Fields::DST_PORT;
    }

    /// Sets the time to live, or hop limit.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.ttl = ttl;
        self.set |= Fields::TTL;
    }

    /// Sets the type of service, or traffic class.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
        self.set |= Fields::TOS;
    }

    /// Changes the outermost VLAN tag; only Ethernet frames have one.
    #[inline]
    pub fn set_vlan(&mut self, edit: VlanEdit) {
        self.vlan = Some(edit);
        self.set |= Fields::VLAN;
    }

    /// Sets the source MAC address of an Ethernet frame.
    #[inline]
    pub fn set_src_mac(&mut self, mac: [u8; 6]) {
        self.src_mac = mac;
        self.set |= Fields::SRC_MAC;
    }

    /// Sets the destination MAC address of an Ethernet frame.
    #[inline]
    pub fn set_dst_mac(&mut self, mac: [u8; 6]) {
        self.dst_mac = mac;
        self.set |= Fields::DST_MAC;
    }
}

/// Why edits could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// A VLAN tag is to be pushed and there is no room for it before or behind the frame.
    NoRoom,
}

/// Applies edits.
pub fn apply(
    _edits: &Edits,
    _headers: &Headers,
    _link: crate::LinkType,
    _buffer: &mut [u8],
    _frame: &mut core::ops::Range<usize>,
) -> Result<(), ApplyError> {
    Ok(())
}

impl Edits {
    /// Makes `headers` read as if the packet had been edited and parsed again (offsets stay).
    pub fn apply_to_headers(&self, _headers: &mut Headers) {}
}
