//! The memory that AF_XDP sockets receive into and send from.

#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::LiveError;

/// What the kernel leaves free before a packet, besides the [headroom](Umem::new): `XDP_PACKET_HEADROOM`.
pub(crate) const XDP_HEADROOM: u32 = 256;

/// Memory in chunks of equal length, one packet in each. Clones are the same memory.
///
/// A chunk is named by its offset from the start of the memory. All sockets of one memory use the same offsets, so a
/// packet that one socket received can be sent by another without a copy.
///
/// Each [socket](crate::xdp::XdpSocket) registers the memory for itself, as VPP's sockets do, and does not use
/// `XDP_SHARED_UMEM`. With that flag the kernel gives every socket the mode of the first one: an interface without
/// zero-copy would then either fail to bind, or take zero-copy from the others. The price is that the kernel counts the
/// locked memory once for each socket, where the process has such a limit (`ulimit -l`, without CAP_IPC_LOCK).
#[derive(Clone)]
pub struct Umem(Arc<Memory>);

struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    chunk_bytes: u32,
    headroom: u32,
    /// Keeps the memory alive.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: only the address is kept here, and handed to the kernel; who touches a chunk is for its holders to agree on.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Umem {
    /// Describes the `bytes` bytes from `start` on, in chunks of `chunk_bytes`. The kernel writes a received packet
    /// `headroom` + 256 bytes behind the start of its chunk. A packet to be sent may lie anywhere in its chunk.
    ///
    /// `owner` keeps the memory alive. It is dropped with the last socket and the last clone of this value. The memory
    /// should be a mapping of its own that is unmapped then, and not memory of the heap that is used again: a driver
    /// with zero-copy may write to chunks for a moment after their socket was closed.
    ///
    /// # Safety
    /// The memory is valid for reads and writes as long as `owner` lives, and nobody reads or writes a chunk while the
    /// kernel holds it: from [`fill`](crate::xdp::XdpSocket::fill) or
    /// [`transmit`](crate::xdp::XdpSocket::transmit) on until it comes back by
    /// [`receive`](crate::xdp::XdpSocket::receive) or [`complete`](crate::xdp::XdpSocket::complete).
    ///
    /// # Errors
    /// [`LiveError::Refused`] if the memory does not begin on a page and consist of whole chunks, if chunks are not a
    /// power of two from 2,048 bytes to a page, or if the headroom leaves no room for packets.
    pub unsafe fn new(
        start: NonNull<u8>,
        bytes: usize,
        chunk_bytes: u32,
        headroom: u32,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Umem, LiveError> {
        let page = page_bytes();
        let refused = |why: String, help: &str| Err(LiveError::refused(why, help));
        if !chunk_bytes.is_power_of_two() || chunk_bytes < 2_048 || chunk_bytes as usize > page {
            return refused(
                format!("AF_XDP takes no chunks of {chunk_bytes} bytes"),
                &format!("Use a power of two from 2048 to {page}."),
            );
        }
        if !start.addr().get().is_multiple_of(page) {
            return refused(
                format!("AF_XDP takes memory from the start of a page on, and not from {start:p} on"),
                &format!("Align it to {page} bytes."),
            );
        }
        if bytes == 0 || !bytes.is_multiple_of(chunk_bytes as usize) {
            return refused(
                format!("{bytes} bytes are no whole number of chunks of {chunk_bytes} bytes"),
                "Use a whole number of chunks.",
            );
        }
        if headroom.saturating_add(XDP_HEADROOM) >= chunk_bytes {
            return refused(
                format!("{headroom} bytes before each packet leave no room for it in {chunk_bytes} bytes"),
                "Use less headroom, or longer chunks.",
            );
        }
        Ok(Umem(Arc::new(Memory { start, bytes, chunk_bytes, headroom, _owner: owner })))
    }

    /// Maps new memory of `chunks` chunks; otherwise as [`Umem::new`]. The memory is unmapped with the last socket and
    /// the last clone of this value.
    ///
    /// # Errors
    /// [`LiveError`] if there is no memory, or as with [`Umem::new`].
    pub fn mapped(chunks: usize, chunk_bytes: u32, headroom: u32) -> Result<Umem, LiveError> {
        let mapped = Mapped::new(chunks.saturating_mul(chunk_bytes as usize).max(1))?;
        let (start, bytes) = (mapped.start, mapped.bytes);
        // SAFETY: the owner keeps the mapping. Its bytes are reached by nothing but `Umem::pointer`, whose users keep
        // the rules.
        unsafe { Umem::new(start, bytes, chunk_bytes, headroom, Arc::new(mapped)) }
    }

    /// A pointer to an address, valid to the end of its chunk; `None` if the address lies outside the memory. Only the
    /// holder of the chunk may use the pointer.
    #[inline]
    pub fn pointer(&self, address: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(address).ok().filter(|offset| *offset < self.0.bytes)?;
        // SAFETY: it lies in the memory, as was just checked.
        Some(unsafe { self.0.start.add(offset) })
    }

    /// Where each chunk begins, as an offset from the start of the memory.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let chunk_bytes = u64::from(self.0.chunk_bytes);
        // A number of chunks fits: `ExactSizeIterator` is for `Range<u32>`, and 2^32 chunks would be 8 TiB.
        (0..(self.0.bytes / self.0.chunk_bytes as usize) as u32).map(move |i| u64::from(i) * chunk_bytes)
    }

    /// How long the longest packet is that is received, bytes.
    pub fn longest_packet(&self) -> usize {
        (self.0.chunk_bytes - XDP_HEADROOM - self.0.headroom) as usize
    }

    /// How long all of it is, bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// How long a chunk is, bytes.
    pub fn chunk_bytes(&self) -> u32 {
        self.0.chunk_bytes
    }

    /// The chunk that an address lies in.
    #[inline]
    pub fn chunk_of(&self, address: u64) -> u64 {
        address & !u64::from(self.0.chunk_bytes - 1)
    }

    /// Whether a packet lies within one chunk of this memory. The kernel never gives back a chunk of a packet that does
    /// not.
    pub(super) fn holds(&self, address: u64, len: u32) -> bool {
        let end = address.saturating_add(u64::from(len));
        len > 0 && end <= self.0.bytes as u64 && self.chunk_of(address) == self.chunk_of(end - 1)
    }

    /// As the kernel is told of it.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.0.start.as_ptr().expose_provenance() as u64,
            len: self.0.bytes as u64,
            chunk_size: self.0.chunk_bytes,
            headroom: self.0.headroom,
            flags: 0,
            tx_metadata_len: 0,
        }
    }
}

/// An anonymous mapping. Dropping it unmaps it.
struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is an address and a length; memory belongs to no thread.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(bytes: usize) -> Result<Mapped, LiveError> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind | libc::MAP_POPULATE, -1, 0) };
        match NonNull::new(start.cast()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Mapped { start: mapped, bytes }),
            _ => Err(LiveError::last(format!("cannot map {bytes} bytes for packets"))),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody reaches it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a page of memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: it takes a number and gives a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).ok().filter(|page| page.is_power_of_two()).unwrap_or(4_096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn umem(start: usize, bytes: usize, chunk_bytes: u32, headroom: u32) -> Result<Umem, String> {
        let start = NonNull::new(std::ptr::without_provenance_mut(start)).expect("not 0");
        // SAFETY: nobody touches it.
        let umem = unsafe { Umem::new(start, bytes, chunk_bytes, headroom, Arc::new(())) };
        umem.map_err(|error| error.to_string())
    }

    #[test]
    fn whole_chunks_on_a_page_are_taken() {
        let umem = umem(1 << 20, 3 * 2_048, 2_048, 64).expect("as it has to be");
        assert_eq!(umem.chunks().collect::<Vec<_>>(), [0, 2_048, 4_096]);
        assert_eq!(umem.longest_packet(), 2_048 - 256 - 64);
        assert_eq!([0, 2_047, 2_048, 4_100].map(|address| umem.chunk_of(address)), [0, 0, 2_048, 4_096]);
        for (address, len, is_held) in [
            (0, 2_048, true),
            (1, 2_048, false),
            (6_143, 1, true),
            (6_143, 2, false),
            (100, 0, false),
            (u64::MAX, 9, false),
        ] {
            assert_eq!(umem.holds(address, len), is_held, "{address} {len}");
        }
    }

    #[test]
    fn what_the_kernel_would_not_take_is_refused_in_words() {
        for (start, bytes, chunk_bytes, headroom, said) in [
            (1 << 20, 1 << 20, 1_024, 0, "no chunks of 1024 bytes"),
            (1 << 20, 1 << 20, 3_000, 0, "no chunks of 3000 bytes"),
            (1 << 20, 1 << 22, 1 << 21, 0, "Use a power of two"),
            ((1 << 20) + 2_048, 1 << 20, 2_048, 0, "start of a page"),
            (1 << 20, 3_000, 2_048, 0, "no whole number of chunks"),
            (1 << 20, 0, 2_048, 0, "no whole number of chunks"),
            (1 << 20, 1 << 20, 2_048, 1_792, "leave no room"),
        ] {
            let error = umem(start, bytes, chunk_bytes, headroom).err().expect(said);
            assert!(error.contains(said), "{error}");
        }
    }
}
