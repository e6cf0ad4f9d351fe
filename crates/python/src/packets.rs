//! A run's packets and flows as Arrow tables.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, RecordBatch, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use engine::report::DroppedPacket;
use engine::{Chain, Seen};
use io::Fate;
use io::capture::CaptureReader;
use nf::{FiveTuple, FlowKey};
use paceline::CallError;

use crate::failure::plain;
use crate::table::Table;

const USAGE: u8 = 2;

/// Packets of a run as they come out, each beside what came in for it. Memory grows with packets and flows of the capture and by no
/// more: what it takes is in docs/guides/python.md.
pub struct Packets {
    capture: PathBuf,
    /// What came in: flows are of headers ahead of edits. Opened with the first packet, when the run has opened it, too.
    came_in: Option<CaptureReader>,
    times: Vec<i64>,
    lengths: Vec<u32>,
    flow_of: Vec<Option<u32>>,
    edited: Vec<bool>,
    verdicts: StringDictionaryBuilder<Int32Type>,
    dropped_by: StringDictionaryBuilder<Int32Type>,
    reasons: StringDictionaryBuilder<Int32Type>,
    dropped: Dropped,
    numbers: HashMap<FiveTuple, u32>,
    flows: Vec<Flow>,
}

/// Packets that were dropped.
#[derive(Default)]
struct Dropped {
    /// Their numbers in the capture, from 0.
    numbers: Vec<u64>,
    by: StringDictionaryBuilder<Int32Type>,
    reasons: StringDictionaryBuilder<Int32Type>,
}

/// What packets of one flow came to.
struct Flow {
    key: FiveTuple,
    first_ns: i64,
    last_ns: i64,
    packets: u64,
    bytes: u64,
    /// By verdict, in the order of [`VERDICTS`].
    verdicts: [u64; VERDICTS.len()],
}

/// Verdicts, by the names that reports have for them.
const VERDICTS: [&str; 4] = ["forward", "drop", "transmit_back", "host"];

fn verdict(fate: Fate) -> usize {
    match fate {
        Fate::Forward => 0,
        Fate::DropBy { .. } | Fate::Drop(_) => 1,
        Fate::TransmitBack => 2,
        Fate::Host => 3,
    }
}

impl Packets {
    /// For a run over this capture, which is read once more beside it.
    pub fn of(capture: PathBuf) -> Result<Packets, CallError> {
        if capture.as_os_str() == "-"
            || std::fs::metadata(&capture).is_ok_and(|found| !found.is_file() && !found.is_dir())
        {
            return Err(plain(USAGE, "a call reads its capture twice\nGive a file, not a pipe."));
        }
        Ok(Packets {
            capture,
            came_in: None,
            times: Vec::new(),
            lengths: Vec::new(),
            flow_of: Vec::new(),
            edited: Vec::new(),
            verdicts: StringDictionaryBuilder::new(),
            dropped_by: StringDictionaryBuilder::new(),
            reasons: StringDictionaryBuilder::new(),
            dropped: Dropped::default(),
            numbers: HashMap::new(),
            flows: Vec::new(),
        })
    }

    /// Adds the packet that came out next, in order of arrival.
    pub fn packet(&mut self, chain: &Chain, seen: &Seen<'_>) -> Result<(), String> {
        if self.came_in.is_none() {
            self.came_in = Some(CaptureReader::open(&self.capture).map_err(|error| error.to_string())?);
        }
        let came_in = self.came_in.as_mut().map_or(Ok(None), CaptureReader::next);
        let came_in = came_in.map_err(|error| error.to_string())?;
        let came_in =
            came_in.ok_or("the capture became shorter during the run\nRun over it when it is whole.")?;
        let headers = wire::parse(came_in.link, came_in.data, came_in.wire_len);
        self.edited.push(came_in.data != seen.bytes);
        let (number, wire_len) = (verdict(seen.fate), came_in.wire_len);
        let time_ns = i64::try_from(seen.stamp.time_ns).unwrap_or(i64::MAX);
        self.times.push(time_ns);
        self.lengths.push(wire_len);
        self.verdicts.append_value(VERDICTS[number]);
        let Seen { fate, bytes, wire_len: left_len, link, refused, .. } = *seen;
        let why = chain.why_dropped(&DroppedPacket { fate, bytes, wire_len: left_len, link, refused });
        self.dropped_by.append_option(why.as_ref().map(|why| &why.by));
        self.reasons.append_option(why.as_ref().map(|why| &why.reason));
        if let Some(why) = &why {
            self.dropped.numbers.push(seen.stamp.seq);
            self.dropped.by.append_value(&why.by);
            self.dropped.reasons.append_value(&why.reason);
        }
        let is_of_flow = headers.is_ip() && headers.is_well_formed();
        let key = is_of_flow.then(|| FiveTuple::of(&headers));
        let flow = key.map(|key| self.flow(key, time_ns, u64::from(wire_len), number)).transpose()?;
        self.flow_of.push(flow);
        Ok(())
    }

    /// Counts a packet for its flow, and returns the flow's number.
    fn flow(&mut self, key: FiveTuple, time_ns: i64, bytes: u64, verdict: usize) -> Result<u32, String> {
        let next = u32::try_from(self.flows.len()).map_err(|_| "there are more than 2^32 flows")?;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            let verdicts = [0; VERDICTS.len()];
            self.flows.push(Flow {
                key,
                first_ns: time_ns,
                last_ns: time_ns,
                packets: 0,
                bytes: 0,
                verdicts,
            });
        }
        let flow = &mut self.flows[number as usize];
        flow.last_ns = time_ns;
        flow.packets += 1;
        flow.bytes += bytes;
        flow.verdicts[verdict] += 1;
        Ok(number)
    }

    /// The tables of packets, of flows, and of dropped packets.
    pub fn finish(self) -> Result<[Table; 3], CallError> {
        let tables = self.tables().map_err(|error| plain(USAGE, error))?;
        Ok(tables.map(Table))
    }

    fn tables(mut self) -> Result<[RecordBatch; 3], ArrowError> {
        let dropped = self.dropped();
        let packets = vec![
            ("time", times(self.times)),
            ("length", Arc::new(UInt32Array::from(self.lengths)) as ArrayRef),
            ("verdict", Arc::new(self.verdicts.finish())),
            ("dropped_by", Arc::new(self.dropped_by.finish())),
            ("reason", Arc::new(self.reasons.finish())),
            ("edited", Arc::new(BooleanArray::from(self.edited))),
            ("flow", Arc::new(UInt32Array::from(self.flow_of))),
        ];
        Ok([batch(packets)?, flows(&self.flows)?, batch(dropped)?])
    }

    fn dropped(&mut self) -> Vec<(&'static str, ArrayRef)> {
        let Dropped { numbers, by, reasons } = &mut self.dropped;
        let of = |number: &u64| *number as usize;
        vec![
            ("number", Arc::new(UInt64Array::from(numbers.clone()))),
            ("time", times(numbers.iter().map(|number| self.times[of(number)]).collect())),
            (
                "length",
                Arc::new(UInt32Array::from_iter_values(
                    numbers.iter().map(|number| self.lengths[of(number)]),
                )),
            ),
            ("dropped_by", Arc::new(by.finish())),
            ("reason", Arc::new(reasons.finish())),
            (
                "flow",
                Arc::new(numbers.iter().map(|number| self.flow_of[of(number)]).collect::<UInt32Array>()),
            ),
        ]
    }
}

fn flows(flows: &[Flow]) -> Result<RecordBatch, ArrowError> {
    let (mut sources, mut destinations) = (StringBuilder::new(), StringBuilder::new());
    for Flow { key, .. } in flows {
        sources.append_value(key.src.to_string());
        destinations.append_value(key.dst.to_string());
    }
    let numbers = |number: fn(&Flow) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(flows.iter().map(number)))
    };
    let ports = |port: fn(&FiveTuple) -> u16| -> ArrayRef {
        Arc::new(UInt16Array::from_iter_values(flows.iter().map(|flow| port(&flow.key))))
    };
    batch(vec![
        ("protocol", Arc::new(UInt8Array::from_iter_values(flows.iter().map(|flow| flow.key.protocol)))),
        ("source", Arc::new(sources.finish())),
        ("source_port", ports(|key| key.src_port)),
        ("destination", Arc::new(destinations.finish())),
        ("destination_port", ports(|key| key.dst_port)),
        ("first", times(flows.iter().map(|flow| flow.first_ns).collect())),
        ("last", times(flows.iter().map(|flow| flow.last_ns).collect())),
        ("packets", numbers(|flow| flow.packets)),
        ("bytes", numbers(|flow| flow.bytes)),
        (VERDICTS[0], numbers(|flow| flow.verdicts[0])),
        (VERDICTS[1], numbers(|flow| flow.verdicts[1])),
        (VERDICTS[2], numbers(|flow| flow.verdicts[2])),
        (VERDICTS[3], numbers(|flow| flow.verdicts[3])),
    ])
}

fn times(ns: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(ns).with_timezone("UTC"))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let field = |(name, column): &(&str, ArrayRef)| {
        let has_nulls = matches!(*name, "dropped_by" | "reason" | "flow");
        let data_type: DataType = column.data_type().clone();
        Field::new(*name, data_type, has_nulls)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
}
