//! A capture as an Arrow table. The bytes of packets are views into the mapped file: nothing is copied but packets of up to
//! 12 bytes, which Arrow keeps in the view itself.
//!
//! ```text
//!  file, mapped     | header | record | packet 0   | record | packet 1 | ...
//!                                       ^ offset, length
//!  buffers          |--------- 0 -------------------|
//!                                  |--------- 1 ----------------|      each begins 1 GiB behind the one before
//! ```
//!
//! Arrow's offsets have 31 bits, so a long file is given in several buffers. They overlap by the longest packet: each packet
//! lies in one of them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::builder::{BinaryViewBuilder, make_view};
use arrow_array::{
    ArrayRef, BinaryViewArray, RecordBatch, TimestampNanosecondArray, UInt16Array, UInt32Array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use engine::Progress;
use io::capture::{CaptureError, CaptureReader, MAX_PACKET_BYTES};
use memmap2::Mmap;
use paceline::CallError;

use crate::failure::plain;
use crate::table::Table;

/// Where one buffer begins behind the one before, bytes.
const STEP_BYTES: u64 = if cfg!(debug_assertions) { 1 << 16 } else { 1 << 30 };
const _: () = assert!(STEP_BYTES + MAX_PACKET_BYTES as u64 <= i32::MAX as u64, "offsets have 31 bits");

/// Exit statuses of the program, for what it would have ended with.
const USAGE: u8 = 2;
const CUT_SHORT: u8 = 4;
const INTERRUPTED: u8 = 130;

/// A capture that was read.
pub struct Read {
    pub table: Table,
    /// Whether packets lie in the mapped file.
    pub is_mapped: bool,
    /// Why it ended behind the last whole packet, if it did not end as it should.
    pub cut_short: Option<CallError>,
}

/// Reads all packets. With `copy`, and where the file is packed, their bytes are copied.
pub fn read(path: &Path, copy: bool, progress: &Progress) -> Result<Read, CallError> {
    let mut reader = CaptureReader::open(path).map_err(failure)?;
    let mapped = match copy || reader.is_packed() || reader.size_bytes().is_none() {
        true => None,
        false => Some(map(path)?),
    };
    let is_mapped = mapped.is_some();
    let mut bytes = mapped.map_or_else(|| Data::Copied(BinaryViewBuilder::new()), Data::Mapped);
    let (mut times, mut lengths, mut links) = (Vec::new(), Vec::new(), Vec::new());
    let cut_short = loop {
        if progress.stop.load(Ordering::Relaxed) {
            return Err(plain(INTERRUPTED, "interrupted"));
        }
        let (time_ns, wire_len, link, len) = match reader.next() {
            Ok(None) => break None,
            Err(error) if error.whole_packets() == 0 => return Err(failure(error)),
            Err(error) => break Some(failure(error)),
            Ok(Some(record)) => {
                if let Data::Copied(builder) = &mut bytes {
                    builder.try_append_value(record.data).map_err(|error| plain(USAGE, error))?;
                }
                (record.time_ns, record.wire_len, record.link, record.data.len())
            }
        };
        if let Data::Mapped(mapped) = &mut bytes {
            mapped.push(reader.offset_bytes(), len).ok_or_else(|| shortened(path))?;
        }
        times.push(i64::try_from(time_ns).unwrap_or(i64::MAX));
        lengths.push(wire_len);
        links.push(link.to_pcap() as u16);
    };
    let packets: ArrayRef = match bytes {
        Data::Copied(mut builder) => Arc::new(builder.finish()),
        Data::Mapped(mapped) => Arc::new(mapped.finish()?),
    };
    let times = TimestampNanosecondArray::from(times).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![
        Arc::new(times),
        Arc::new(UInt32Array::from(lengths)),
        Arc::new(UInt16Array::from(links)),
        packets,
    ];
    let schema = Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false),
        Field::new("length", DataType::UInt32, false),
        Field::new("link_type", DataType::UInt16, false),
        Field::new("packet", DataType::BinaryView, false),
    ]);
    let batch = RecordBatch::try_new(Arc::new(schema), columns).map_err(|error| plain(USAGE, error))?;
    Ok(Read { table: Table(batch), is_mapped, cut_short })
}

enum Data {
    Copied(BinaryViewBuilder),
    Mapped(Mapped),
}

/// Views into a mapped file.
struct Mapped {
    file: Bytes,
    views: Vec<u128>,
}

#[expect(unsafe_code, reason = "a mapped file is memory that others may write")]
fn map(path: &Path) -> Result<Mapped, CallError> {
    let failed = |source| failure(CaptureError::Open { path: path.into(), source });
    let file = File::open(path).map_err(failed)?;
    // SAFETY: the bytes are read only, and nothing is concluded from reading them twice. Another process may write the file,
    // so that packets change, or cut it, so that touching them ends this process (SIGBUS): `read_capture` says so, and has
    // `copy` for such files.
    let mapped = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(Mapped { file: Bytes::from_owner(mapped), views: Vec::new() })
}

impl Mapped {
    /// Adds a packet; `None` if the file is too short for it by now.
    fn push(&mut self, offset: u64, len: usize) -> Option<()> {
        let from = usize::try_from(offset).ok()?;
        let data = self.file.get(from..from.checked_add(len)?)?;
        let buffer = offset / STEP_BYTES;
        self.views.push(make_view(data, u32::try_from(buffer).ok()?, (offset % STEP_BYTES) as u32));
        Some(())
    }

    fn finish(self) -> Result<BinaryViewArray, CallError> {
        let Mapped { file, views } = self;
        let size = file.len();
        let whole = Buffer::from(file);
        let pieces = (0..size.div_ceil(STEP_BYTES as usize)).map(|piece| {
            let from = piece * STEP_BYTES as usize;
            whole.slice_with_length(from, (STEP_BYTES as usize + MAX_PACKET_BYTES).min(size - from))
        });
        let pieces: Vec<Buffer> = pieces.collect();
        BinaryViewArray::try_new(ScalarBuffer::from(views), pieces, None).map_err(|error| plain(USAGE, error))
    }
}

fn failure(error: CaptureError) -> CallError {
    let status = if error.whole_packets() > 0 { CUT_SHORT } else { USAGE };
    plain(status, error)
}

fn shortened(path: &Path) -> CallError {
    let name = path.display();
    plain(
        USAGE,
        format!("{name} became shorter while it was read\nRead it when it is whole, or with copy=True."),
    )
}
