//! Memory for test code, and a small emitter, independent of the crate's own.

use alloc::vec::Vec;
use core::ffi::c_void;

use crate::addr::{CodeAddr, Len};

const SIZE: usize = 64 * 1024;

/// Memory that is written first and executed after [`seal`](Self::seal). It stays mapped until the
/// test ends.
pub(super) struct Memory {
    base: *mut u8,
    used: usize,
}

impl Memory {
    pub(super) fn new() -> Self {
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        Self {
            base: base.cast(),
            used: 0,
        }
    }

    /// The address of the next piece.
    pub(super) fn here(&self) -> CodeAddr {
        CodeAddr::new(self.base as u64 + self.used as u64)
    }

    pub(super) fn reserve(&mut self, len: usize) -> CodeAddr {
        let at = self.here();
        self.used += len.next_multiple_of(16);
        assert!(self.used <= SIZE);
        at
    }

    pub(super) fn write(&mut self, at: CodeAddr, bytes: &[u8]) {
        let offset = (at.get() - self.base as u64) as usize;
        assert!(offset + bytes.len() <= SIZE);
        // SAFETY: checked to lie in the mapping.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(offset), bytes.len()) };
    }

    pub(super) fn place(&mut self, bytes: &[u8]) -> CodeAddr {
        let at = self.reserve(bytes.len());
        self.write(at, bytes);
        at
    }

    pub(super) fn seal(&self) {
        // SAFETY: the mapping of this value.
        let done = unsafe {
            libc::mprotect(
                self.base.cast::<c_void>(),
                SIZE,
                libc::PROT_READ | libc::PROT_EXEC,
            )
        };
        assert_eq!(done, 0);
    }
}

/// Hardware numbers of the general registers, by DWARF number.
const HARDWARE: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// DWARF numbers.
pub(super) const RAX: usize = 0;
pub(super) const RDX: usize = 1;
pub(super) const RSI: usize = 4;
pub(super) const RDI: usize = 5;
pub(super) const RSP: usize = 7;

/// Code for an address.
pub(super) struct Asm {
    pub(super) at: CodeAddr,
    pub(super) bytes: Vec<u8>,
}

impl Asm {
    pub(super) fn new(at: CodeAddr) -> Self {
        Self {
            at,
            bytes: Vec::new(),
        }
    }

    pub(super) fn here(&self) -> CodeAddr {
        self.at.plus(Len::of(&self.bytes).unwrap()).unwrap()
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    /// ModRM with a 32-bit displacement from a base register.
    fn memory(&mut self, field: u8, base: usize, disp: i32) -> &mut Self {
        let base = HARDWARE[base];
        self.bytes.push(0x80 | (field & 7) << 3 | base & 7);
        if base & 7 == 4 {
            self.bytes.push(0x24);
        }
        self.raw(&disp.to_le_bytes())
    }

    fn mov(&mut self, opcode: u8, reg: usize, base: usize, disp: i32) -> &mut Self {
        let field = HARDWARE[reg];
        self.raw(&[0x48 | (field >> 3) << 2 | HARDWARE[base] >> 3, opcode])
            .memory(field, base, disp)
    }

    /// `mov reg, [base + disp]`
    pub(super) fn load(&mut self, reg: usize, base: usize, disp: i32) -> &mut Self {
        self.mov(0x8b, reg, base, disp)
    }

    /// `mov [base + disp], reg`
    pub(super) fn store(&mut self, reg: usize, base: usize, disp: i32) -> &mut Self {
        self.mov(0x89, reg, base, disp)
    }

    /// `lea rsp, [rsp + by]`
    pub(super) fn move_stack(&mut self, by: i32) -> &mut Self {
        self.mov(0x8d, RSP, RSP, by)
    }

    /// `mov reg, imm64`
    pub(super) fn set(&mut self, reg: usize, value: u64) -> &mut Self {
        let number = HARDWARE[reg];
        self.raw(&[0x48 | number >> 3, 0xb8 | number & 7])
            .raw(&value.to_le_bytes())
    }

    /// An instruction of up to three opcode bytes with a memory operand.
    pub(super) fn op(&mut self, opcode: &[u8], field: u8, base: usize, disp: i32) -> &mut Self {
        self.raw(opcode).memory(field, base, disp)
    }

    fn branch(&mut self, opcode: u8, to: CodeAddr) -> &mut Self {
        self.bytes.push(opcode);
        let distance = to.distance_from(self.here()) - 4;
        self.raw(&i32::try_from(distance).unwrap().to_le_bytes())
    }

    pub(super) fn jmp(&mut self, to: CodeAddr) -> &mut Self {
        self.branch(0xe9, to)
    }

    pub(super) fn call(&mut self, to: CodeAddr) -> &mut Self {
        self.branch(0xe8, to)
    }

    pub(super) fn ret(&mut self) -> &mut Self {
        self.raw(&[0xc3])
    }

    /// Loads or stores the low `width` bytes of a vector register.
    pub(super) fn vector(
        &mut self,
        store: bool,
        width: usize,
        number: u8,
        base: usize,
        disp: i32,
    ) -> &mut Self {
        let opcode = if store { 0x7f } else { 0x6f };
        let (low, high) = (!number >> 3 & 1, !number >> 4 & 1);
        match width {
            16 => self.raw(&[0xf3, 0x40 | (1 - low) << 2, 0x0f, opcode]),
            32 => self.raw(&[0xc4, low << 7 | 0x61, 0x7e, opcode]),
            _ => self.raw(&[0x62, low << 7 | 0x60 | high << 4 | 1, 0xfe, 0x48, opcode]),
        };
        self.memory(number & 7, base, disp)
    }

    /// Loads or stores a mask register.
    pub(super) fn mask(&mut self, store: bool, number: u8, base: usize, disp: i32) -> &mut Self {
        let opcode = if store { 0x91 } else { 0x90 };
        self.op(&[0xc4, 0xe1, 0xf8, opcode], number, base, disp)
    }
}
