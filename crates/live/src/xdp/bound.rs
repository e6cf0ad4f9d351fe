//! The XDP program as it is loaded for one interface, whose driver it asks for VLAN tags.
//!
//! A driver may hold a frame's tag beside the frame. A program sees it if it calls a function of the kernel
//! (`bpf_xdp_metadata_rx_vlan_tag`, Linux 6.8), and the kernel allows that call to programs that are bound to an interface.
//! The loader library knows neither such calls nor such programs. So it makes the maps, and the program is loaded here.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::error::Error;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya_obj::Object;
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::bpf_insn;

use super::link::bpf;

/// The program in the object, and the kernel's function that it calls.
const PROGRAM: &str = "steer_tags";
const FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";
/// What stands for the function in bpf/bpf.h.
const PLACEHOLDER: i32 = 0x7fff_fff0;
/// `BPF_JMP | BPF_CALL`, and `BPF_PSEUDO_KFUNC_CALL` of linux/bpf.h.
const CALL: u8 = 0x85;
const OF_KERNEL: u8 = 2;

/// The kernel's functions are for programs whose licence is compatible with the GPL. A licensee who has the program under the MIT
/// licence may use it under the GPL, too.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// `BPF_PROG_LOAD`, `BPF_PROG_TYPE_XDP`, `BPF_XDP`, `BPF_F_XDP_HAS_FRAGS` and `BPF_F_XDP_DEV_BOUND_ONLY` of linux/bpf.h.
const BPF_PROG_LOAD: libc::c_long = 5;
const TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const TAKES_PARTS: u32 = 1 << 5;
const BOUND: u32 = 1 << 6;

/// What `BPF_PROG_LOAD` takes of `union bpf_attr`, up to what is used here.
#[repr(C)]
struct Load {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// Loads the program for the interface of this index, with the maps of `loaded`, which was loaded from `object`. It may
/// take frames that are in several parts.
///
/// # Errors
/// If the kernel has no such function, or refuses.
pub(super) fn load(
    object: &[u8],
    loaded: &Ebpf,
    interface: u32,
    takes_parts: bool,
) -> Result<OwnedFd, Box<dyn Error>> {
    let function = Btf::from_sys_fs()?.id_by_type_name_kind(FUNCTION, BtfKind::Func)?;
    let instructions = instructions(object, loaded, function)?;
    let mut name = [0; 16];
    name[..PROGRAM.len()].copy_from_slice(PROGRAM.as_bytes());
    let request = Load {
        kind: TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr().addr() as u64,
        licence: LICENCE.as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: if takes_parts { BOUND | TAKES_PARTS } else { BOUND },
        name,
        interface,
        attach_type: ATTACH_XDP,
    };
    let fd = bpf(BPF_PROG_LOAD, &request)?;
    // SAFETY: it was just opened, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The program's code, with the maps and the function that it uses in their places.
fn instructions(object: &[u8], loaded: &Ebpf, function: u32) -> Result<Vec<bpf_insn>, Box<dyn Error>> {
    let mut object = Object::parse(object)?;
    let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let maps = std::mem::take(&mut object.maps);
    let of = |name: &String| {
        let fd = loaded.map(name).and_then(data).map(|data| data.fd().as_fd().as_raw_fd());
        fd.ok_or_else(|| io::Error::other(format!("the map `{name}` is not there")))
    };
    let fds = maps.keys().map(of).collect::<Result<Vec<_>, _>>()?;
    let all = maps.iter().zip(fds).map(|((name, map), fd)| (name.as_str(), fd, map));
    object.relocate_maps(all, &sections)?;
    object.relocate_calls(&sections)?;
    let program = object.programs.get(PROGRAM).ok_or_else(|| io::Error::other("the program is not there"))?;
    let mut instructions = object.functions[&program.function_key()].instructions.clone();
    for call in instructions.iter_mut().filter(|call| call.code == CALL && call.imm == PLACEHOLDER) {
        call.set_src_reg(OF_KERNEL);
        call.imm = function as i32;
    }
    Ok(instructions)
}

/// A map of one of the kinds that the program has.
fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LpmTrie(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::XskMap(data) => Some(data),
        _ => None,
    }
}
