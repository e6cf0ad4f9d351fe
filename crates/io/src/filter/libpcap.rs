//! libpcap, loaded at run time: its compiler of filter expressions, and nothing else of it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::{Library, Symbol};
use wire::LinkType;

use super::program::{Instruction, Program};

/// What the library is called: on Debian and Ubuntu, elsewhere, on macOS.
const NAMES: [&str; 4] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so", "libpcap.dylib"];

/// So much of a packet a filter may ask for.
const SNAPLEN: c_int = 262_144;
/// The netmask of the network, of which we know nothing: `PCAP_NETMASK_UNKNOWN`.
const NO_NETMASK: u32 = u32::MAX;
/// The most instructions that are taken of a compiled program.
const INSTRUCTIONS_MAX: usize = 1 << 16;

/// The library, as long as it is needed.
pub struct Libpcap(Library);

/// `pcap_t`: only its address is used.
type Handle = *mut c_void;

/// `struct bpf_program`.
#[repr(C)]
struct RawProgram {
    len: c_uint,
    instructions: *mut RawInstruction,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> Handle;
type Compile = unsafe extern "C" fn(Handle, *mut RawProgram, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(Handle) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut RawProgram);
type Close = unsafe extern "C" fn(Handle);

impl Libpcap {
    /// Finds and loads the library, or says why not.
    pub fn load() -> Result<Libpcap, String> {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: libpcap has no initialisers and finalisers that do anything to the rest of the process.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Libpcap(library)),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Compiles an expression for packets that begin with `link`; an error is in libpcap's words.
    pub fn compile(&self, link: LinkType, expression: &str) -> Result<Program, String> {
        let text = CString::new(expression).map_err(|_| "a filter has no zero bytes".to_owned())?;
        let open: Symbol<'_, OpenDead> = self.function(b"pcap_open_dead\0")?;
        let compile: Symbol<'_, Compile> = self.function(b"pcap_compile\0")?;
        let error: Symbol<'_, GetError> = self.function(b"pcap_geterr\0")?;
        let free: Symbol<'_, FreeCode> = self.function(b"pcap_freecode\0")?;
        let close: Symbol<'_, Close> = self.function(b"pcap_close\0")?;
        let mut raw = RawProgram { len: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is one that was opened here and is closed here, once, after its last use. `text` ends with a
        // zero byte and lives on; `raw` is filled in by pcap_compile, read only if that succeeded, and then freed once.
        // The error's text is copied while the handle is open.
        unsafe {
            let handle = open(dlt(link), SNAPLEN);
            if handle.is_null() {
                return Err("libpcap has no memory".to_owned());
            }
            let compiled = match compile(handle, &raw mut raw, text.as_ptr(), 1, NO_NETMASK) {
                0 => {
                    let copied = copy(&raw);
                    free(&raw mut raw);
                    copied
                }
                _ => Err(CStr::from_ptr(error(handle)).to_string_lossy().into_owned()),
            };
            close(handle);
            compiled
        }
    }

    /// A function of the library, whose type the caller knows from `pcap.h`.
    fn function<T>(&self, name: &'static [u8]) -> Result<Symbol<'_, T>, String> {
        // SAFETY: the types above are those of pcap.h, which have not changed since libpcap 0.9.
        unsafe { self.0.get(name) }.map_err(|error| error.to_string())
    }
}

/// What was compiled, checked.
///
/// # Safety
/// As `pcap_compile` left it.
unsafe fn copy(raw: &RawProgram) -> Result<Program, String> {
    let len = raw.len as usize;
    if raw.instructions.is_null() || len > INSTRUCTIONS_MAX {
        return Err(format!("libpcap made a program of {len} instructions"));
    }
    // SAFETY: the caller has a compiled program: so many instructions are there.
    let instructions = unsafe { std::slice::from_raw_parts(raw.instructions, len) };
    let instructions = instructions.iter().map(|raw| {
        let RawInstruction { code, jt, jf, k } = *raw;
        Instruction { code, jt, jf, k }
    });
    Program::new(instructions.collect()).map_err(|error| error.to_string())
}

/// libpcap's number for a link type here, which is not that of files for raw IP (`DLT_RAW`).
fn dlt(link: LinkType) -> c_int {
    match link {
        LinkType::RawIp => 12,
        link => link.to_pcap() as c_int,
    }
}
