//! Classic BPF (McCanne and Jacobson 1993): what filters are compiled to. A program is checked once; after that it ends
//! for any bytes, and reads none that are not there.

use thiserror::Error;

/// Words of memory that a program has.
const MEMORY_WORDS: usize = 16;

/// One instruction, as the kernel and libpcap write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// How many instructions a jump skips if its condition holds.
    pub jt: u8,
    /// And if not.
    pub jf: u8,
    /// A number, an offset, or a place in memory.
    pub k: u32,
}

/// A program that is known to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Box<[Instruction]>);

/// Why instructions are no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// There are none, or the last one does not return.
    #[error("the filter's program does not end with a return")]
    NoEnd,
    /// One is not known, jumps past the end, divides by zero or names memory that there is not.
    #[error("instruction {0} of the filter's program is none of classic BPF")]
    Instruction(usize),
}

mod code {
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;
}

impl Program {
    /// A program that takes all packets.
    pub fn all() -> Program {
        Program(Box::new([Instruction { code: code::RET, jt: 0, jf: 0, k: u32::MAX }]))
    }

    /// Checks instructions.
    ///
    /// # Errors
    /// [`ProgramError`] names the first that is wrong.
    pub fn new(instructions: Vec<Instruction>) -> Result<Program, ProgramError> {
        if !matches!(instructions.last(), Some(last) if last.code & 7 == code::RET) {
            return Err(ProgramError::NoEnd);
        }
        for (at, instruction) in instructions.iter().enumerate() {
            if !is_right(*instruction, instructions.len() - 1 - at) {
                return Err(ProgramError::Instruction(at));
            }
        }
        Ok(Program(instructions.into()))
    }

    /// The instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// Whether it takes a packet, of which `bytes` are here and which had `wire_len` on the wire. Takes one step for each
    /// instruction at most, since jumps go forward.
    pub fn matches(&self, bytes: &[u8], wire_len: u32) -> bool {
        self.run(bytes, wire_len).is_some_and(|taken| taken > 0)
    }

    /// What the program returns; `None` if it reads past the end of the packet, or divides by zero.
    pub(super) fn run(&self, bytes: &[u8], wire_len: u32) -> Option<u32> {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; MEMORY_WORDS], 0);
        loop {
            let Instruction { code, jt, jf, k } = *self.0.get(at)?;
            at += 1;
            let operand = if code & 0x08 == 0 { k } else { x };
            match code & 7 {
                code::LD => a = load(code, k, x, &memory, bytes, wire_len)?,
                code::LDX => x = load(code, k, x, &memory, bytes, wire_len)?,
                code::ST => memory[k as usize] = a,
                code::STX => memory[k as usize] = x,
                code::ALU => a = calculate(code & 0xf0, a, operand)?,
                code::JMP => at += jump(code & 0xf0, a, operand, k, (jt, jf)),
                code::RET => return Some(if code & 0x18 == 0x10 { a } else { operand }),
                _ if code & 0x80 == 0 => x = a,
                _ => a = x,
            }
        }
    }
}

/// Whether an instruction with so many behind it is one.
fn is_right(Instruction { code, jt, jf, k }: Instruction, behind: usize) -> bool {
    let rest = code & !7;
    match code & 7 {
        code::LD => match rest {
            0x00 | 0x80 | 0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => true,
            0x60 => (k as usize) < MEMORY_WORDS,
            _ => false,
        },
        code::LDX => match rest {
            0x00 | 0x80 | 0xb0 => true,
            0x60 => (k as usize) < MEMORY_WORDS,
            _ => false,
        },
        code::ST | code::STX => rest == 0 && (k as usize) < MEMORY_WORDS,
        code::ALU => match rest & 0xf0 {
            0x30 | 0x90 => rest & 0x08 != 0 || k != 0,
            operation => operation <= 0xa0,
        },
        code::JMP => match rest & 0xf0 {
            0x00 => (k as usize) < behind,
            operation => operation <= 0x40 && usize::from(jt.max(jf)) < behind,
        },
        code::RET => matches!(rest, 0x00 | 0x08 | 0x10),
        code::MISC => matches!(rest, 0x00 | 0x80),
        _ => false,
    }
}

fn load(code: u16, k: u32, x: u32, memory: &[u32], bytes: &[u8], wire_len: u32) -> Option<u32> {
    let at = |offset: u32, len: usize| {
        let offset = offset as usize;
        bytes.get(offset..offset.checked_add(len)?)
    };
    let number = |offset: u32| {
        let len = match code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            _ => 1,
        };
        Some(at(offset, len)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    match code & 0xe0 {
        0x00 => Some(k),
        0x20 => number(k),
        0x40 => number(x.checked_add(k)?),
        0x60 => memory.get(k as usize).copied(),
        0x80 => Some(wire_len),
        // The length of an IPv4 header.
        _ => Some(u32::from(at(k, 1)?[0] & 0x0f) * 4),
    }
}

fn calculate(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

/// How many instructions are skipped.
fn jump(operation: u16, a: u32, operand: u32, k: u32, (jt, jf): (u8, u8)) -> usize {
    let holds = match operation {
        0x00 => return k as usize,
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        _ => a & operand != 0,
    };
    usize::from(if holds { jt } else { jf })
}
