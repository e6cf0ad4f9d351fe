//! Functions written in Python, for trying ideas: a chain names one, and the engine runs and judges it like any other.
//!
//! Each core takes the interpreter for each packet, so that cores wait for each other: this shows what a function answers, not
//! how fast. An object has one method, `step(state, packet)`, which returns the new state and the verdict. All that it knows of
//! a flow is in `state`; what it keeps elsewhere differs from core to core in order, and `verify` finds that.

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Registry;
use nf::{
    About, Connection, Cx, FiveTuple, FlowKey, NetworkFunction, OptionDoc, OptionError, SrcAddr, Verdict,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use wire::{Fields, Headers};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

/// Bytes of a flow's state that an object has to itself.
const STATE_BYTES: usize = 63;

/// Indices of [`NetworkFunction::ABOUT`]'s drop reasons.
const DROPPED: u8 = 0;
const FAILED: u8 = 1;

/// The objects of one call, by the names that chains have for them, and the first exception that one of them raised.
#[derive(Clone, Default)]
pub struct Objects {
    named: Arc<HashMap<String, Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

thread_local! {
    /// Those of the call that this thread makes: functions are made of a chain file, which only names them.
    static OBJECTS: RefCell<Objects> = RefCell::default();
}

impl Objects {
    /// The objects of a call.
    pub fn new(named: HashMap<String, Py<PyAny>>) -> Objects {
        Objects { named: Arc::new(named), raised: Arc::default() }
    }

    /// Chains that this thread reads from now on have these.
    pub fn enter(&self) {
        OBJECTS.set(self.clone());
    }

    /// The first exception, if there was one.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn has_raised(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Adds the functions by which chains name objects: one for each kind of key.
pub fn add(registry: &mut Registry) {
    registry.add::<Scripted<FiveTuple>>();
    registry.add::<Scripted<Connection>>();
    registry.add::<Scripted<SrcAddr>>();
}

/// A key that selects the state of an object.
pub trait Keyed: FlowKey {
    const NAME: &str;
    fn of_meta(meta: &Meta) -> Self;
}

impl Keyed for FiveTuple {
    const NAME: &str = "python-five-tuple";
    fn of_meta(meta: &Meta) -> FiveTuple {
        meta.flow
    }
}

impl Keyed for Connection {
    const NAME: &str = "python-connection";
    fn of_meta(meta: &Meta) -> Connection {
        meta.connection
    }
}

impl Keyed for SrcAddr {
    const NAME: &str = "python-source";
    fn of_meta(meta: &Meta) -> SrcAddr {
        SrcAddr(meta.flow.src)
    }
}

/// What an object may see of a packet. Plain bytes without padding.
#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    flow: FiveTuple,
    connection: Connection,
    seq: u32,
    ack: u32,
    length: u16,
    tcp_flags: u8,
    ttl: u8,
}

/// A flow's state. Plain bytes without padding.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub struct State {
    len: u8,
    bytes: [u8; STATE_BYTES],
}

/// What a chain file may say.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    object: String,
    idle_timeout_ms: Option<u64>,
}

/// An object of Python as a function.
pub struct Scripted<K> {
    object: String,
    objects: Objects,
    idle_timeout_ns: u64,
    key: PhantomData<fn() -> K>,
}

const IDLE_TIMEOUT_MS: u64 = 60_000;

impl<K: Keyed> NetworkFunction for Scripted<K> {
    const ABOUT: About = About {
        name: K::NAME,
        summary: "an object of Python",
        spec: "docs/guides/python.md",
        options: &[
            OptionDoc { name: "object", default: "", help: "its name in `functions` of the call" },
            OptionDoc { name: "idle_timeout_ms", default: "60000", help: "how long a flow may be silent" },
        ],
        drop_reasons: &["dropped", "failed"],
        ..About::NONE
    };
    const READS: Fields = Fields::FIVE_TUPLE
        .union(Fields::MARKS)
        .union(Fields::TCP_SHAPE)
        .union(Fields::SEQ)
        .union(Fields::ACK)
        .union(Fields::L3_LEN)
        .union(Fields::TCP_FLAGS)
        .union(Fields::TTL);

    type Key = K;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let objects = OBJECTS.with_borrow(Clone::clone);
        if !objects.named.contains_key(&options.object) {
            let mut known: Vec<&str> = objects.named.keys().map(String::as_str).collect();
            known.sort_unstable();
            let message = match known.is_empty() {
                true => "must name an object, and the call has none: give it `functions`".to_owned(),
                false => {
                    format!("must name an object of the call's `functions`, which are: {}", known.join(", "))
                }
            };
            return Err(OptionError { option: "object", message });
        }
        let idle_timeout_ns = options.idle_timeout_ms.unwrap_or(IDLE_TIMEOUT_MS).saturating_mul(1_000_000);
        Ok(Scripted { object: options.object, objects, idle_timeout_ns, key: PhantomData })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_ip().then(|| Meta {
            flow: FiveTuple::of(headers),
            connection: Connection::of(headers),
            seq: headers.seq,
            ack: headers.ack,
            length: headers.l3_len,
            tcp_flags: headers.tcp_flags,
            ttl: headers.ttl,
        })
    }

    fn key(meta: &Meta) -> K {
        K::of_meta(meta)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        if self.objects.has_raised() {
            return Verdict::Drop(FAILED);
        }
        match Python::attach(|py| self.stepped(py, flow, meta, cx.stamp.time_ns)) {
            Ok(verdict) => verdict,
            Err(error) => {
                self.objects.note(error);
                Verdict::Drop(FAILED)
            }
        }
    }

    fn idle_timeout_ns(&self, _: &State) -> u64 {
        self.idle_timeout_ns
    }
}

impl<K> Scripted<K> {
    fn stepped(
        &self,
        py: Python<'_>,
        flow: &mut Option<State>,
        meta: &Meta,
        time_ns: u64,
    ) -> PyResult<Verdict> {
        let Some(object) = self.objects.named.get(&self.object) else { return Ok(Verdict::Forward) };
        let state = flow.as_ref().map(|state| PyBytes::new(py, &state.bytes[..usize::from(state.len)]));
        let Meta { flow: key, seq, ack, length, tcp_flags, ttl, .. } = *meta;
        let packet = Packet {
            time_ns,
            source: key.src.to_string(),
            destination: key.dst.to_string(),
            source_port: key.src_port,
            destination_port: key.dst_port,
            protocol: key.protocol,
            length,
            seq,
            ack,
            tcp_flags,
            ttl,
        };
        let returned = object.bind(py).call_method1("step", (state, packet))?;
        let (state, verdict): (Option<Vec<u8>>, String) = returned.extract().map_err(|_| {
            PyTypeError::new_err("step() returns the state, as bytes or None, and the verdict, as a string")
        })?;
        let verdict = match verdict.as_str() {
            "forward" => Verdict::Forward,
            "drop" => Verdict::Drop(DROPPED),
            "transmit_back" => Verdict::TransmitBack,
            "host" => Verdict::Host,
            other => {
                let message = format!(
                    "step() returned the verdict '{other}': there are forward, drop, transmit_back and host"
                );
                return Err(PyValueError::new_err(message));
            }
        };
        *flow = state.map(State::of).transpose()?;
        Ok(verdict)
    }
}

impl State {
    fn of(given: Vec<u8>) -> PyResult<State> {
        let mut bytes = [0; STATE_BYTES];
        let Some(room) = bytes.get_mut(..given.len()) else {
            let message = format!("step() returned a state of {} bytes: {STATE_BYTES} at most", given.len());
            return Err(PyValueError::new_err(message));
        };
        room.copy_from_slice(&given);
        Ok(State { len: given.len() as u8, bytes })
    }
}

/// A packet as an object's `step` sees it.
#[pyclass(frozen, get_all, module = "paceline._native")]
pub struct Packet {
    time_ns: u64,
    source: String,
    destination: String,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
    length: u16,
    seq: u32,
    ack: u32,
    tcp_flags: u8,
    ttl: u8,
}
