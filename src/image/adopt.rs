//! Code that somebody else loaded: the way without the linker.
#![allow(
    unsafe_code,
    reason = "the promise about foreign memory is an unsafe function"
)]

use alloc::string::String;
use alloc::vec::Vec;

use super::{AdoptionError, CodeTable, EhFrame, FunctionRange, Image};
use crate::addr::{CodeAddr, CodeRange, Len};
use crate::arch::Arch;
use crate::stackmap::{Endian, StackMap, StackMaps};

/// A description of code in memory: the stack map section and the functions that it is about.
///
/// ```no_run
/// use patchpoint::addr::{CodeAddr, Len};
/// use patchpoint::arch::Arch;
/// use patchpoint::image::Adoption;
/// use patchpoint::stackmap::Endian;
/// # fn section() -> Vec<u8> { Vec::new() }
///
/// let adoption = Adoption::new(Arch::X86_64, Endian::Little, section())
///     .function("get", CodeAddr::new(0x7f12_3450_0000), Len::new(38));
/// // SAFETY: the JIT keeps `get` mapped for as long as the module is registered, and ...
/// let code = unsafe { adoption.promise() }?;
/// # Ok::<(), patchpoint::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adoption {
    image: Image,
    may_have_run: bool,
}

/// Code that was adopted, with the caller's promise about it.
#[derive(Clone, Debug)]
pub struct AdoptedCode {
    image: Image,
    may_have_run: bool,
}

impl Adoption {
    /// Starts with the bytes of the stack map section. If its function addresses are not those in
    /// memory (the section was taken from the object file),
    /// [`function_addresses`](Self::function_addresses) gives them.
    #[must_use]
    pub fn new(arch: Arch, endian: Endian, stack_maps: Vec<u8>) -> Self {
        Self {
            image: Image {
                arch,
                windows: false,
                endian,
                stack_maps,
                functions: Vec::new(),
                eh_frames: Vec::new(),
                code_tables: Vec::new(),
                code: Vec::new(),
            },
            may_have_run: true,
        }
    }

    /// The code has not been executed yet, and will not be before its module is
    /// [released](crate::site::Module::release): until then no return address can point into its
    /// sites.
    #[must_use]
    pub fn not_yet_run(mut self) -> Self {
        self.may_have_run = false;
        self
    }

    /// Adds a function: its name, its address, its length in bytes.
    #[must_use]
    pub fn function(mut self, name: impl Into<String>, addr: CodeAddr, len: Len) -> Self {
        self.image.functions.push(FunctionRange {
            name: name.into(),
            addr,
            len,
            pointer: addr,
        });
        self
    }

    /// The last function added is called through this pointer: on PowerPC ELFv1, the address of its
    /// descriptor. Its own address, given before, is that of its code there too, as are those in
    /// the stack map.
    #[must_use]
    pub fn called_at(mut self, pointer: CodeAddr) -> Self {
        if let Some(function) = self.image.functions.last_mut() {
            function.pointer = pointer;
        }
        self
    }

    /// Adds unwind information: the bytes of an `.eh_frame` section and the address where it is.
    #[must_use]
    pub fn eh_frame(mut self, addr: CodeAddr, bytes: Vec<u8>) -> Self {
        self.image.eh_frames.push(EhFrame { addr, bytes });
        self
    }

    /// Adds a table about the code, such as a PC section: its name, the address where it is, or for
    /// which it was relocated, and its bytes.
    #[must_use]
    pub fn code_table(mut self, name: impl Into<String>, addr: CodeAddr, bytes: Vec<u8>) -> Self {
        let name = name.into();
        self.image.code_tables.push(CodeTable { name, addr, bytes });
        self
    }

    /// Writes the addresses of the functions of the stack map, in its order, into it.
    ///
    /// # Errors
    /// The section is no stack map, or has another number of functions.
    pub fn function_addresses(mut self, addrs: &[CodeAddr]) -> Result<Self, AdoptionError> {
        let fields = address_fields(&self.image)?;
        if fields.len() != addrs.len() {
            return Err(AdoptionError::FunctionCount {
                needed: fields.len(),
                found: addrs.len(),
            });
        }
        for (at, addr) in fields.into_iter().zip(addrs) {
            let bytes = match self.image.endian {
                Endian::Little => addr.get().to_le_bytes(),
                Endian::Big => addr.get().to_be_bytes(),
            };
            if let Some(field) = at
                .checked_add(8)
                .and_then(|end| self.image.stack_maps.get_mut(at..end))
            {
                field.copy_from_slice(&bytes);
            }
        }
        Ok(self)
    }

    /// Checks the description, and takes the caller's word for what cannot be checked.
    ///
    /// # Safety
    ///
    /// From now until the module that this is registered as is gone, with every handle of it, its
    /// sites and its functions:
    ///
    /// - every function's range is mapped, readable and executable, and holds that function's code, compiled
    ///   by the LLVM that wrote the stack map and not changed since;
    /// - nobody but this crate writes to the ranges, or unmaps, moves or protects the pages they lie in;
    /// - what else lies in those pages is code that the same threads execute, or nothing;
    /// - where the code is [remapped](crate::memory::Remap), as asked for, because it is registered live, or as
    ///   other code on these pages was: what [`Remap::register`](crate::memory::Remap::register) demands of the
    ///   whole pages;
    /// - if [`not_yet_run`](Self::not_yet_run) was said, it is true;
    /// - the memory is not shared with a mapping that is writable and executable at once;
    /// - other threads do not execute a site while it is patched, but as the engine's world (its means to
    ///   stop threads) allows.
    ///
    /// # Errors
    /// The section is no stack map; a function is empty, wraps around the address space or overlaps another
    /// without having the same range; the stack map has a function at an address where none was given.
    pub unsafe fn promise(mut self) -> Result<AdoptedCode, AdoptionError> {
        self.image
            .functions
            .sort_by_key(|function| (function.addr, function.len));
        self.image.functions.shrink_to_fit();
        self.check_ranges()?;
        self.check_stack_maps()?;
        self.image.code = joined(&self.image.functions);
        Ok(AdoptedCode {
            image: self.image,
            may_have_run: self.may_have_run,
        })
    }

    fn check_ranges(&self) -> Result<(), AdoptionError> {
        let refuse = |function: &FunctionRange, reason| {
            Err(AdoptionError::Function {
                name: function.name.clone(),
                addr: function.addr,
                reason,
            })
        };
        let mut last: Option<&FunctionRange> = None;
        for function in &self.image.functions {
            if function.len.get() == 0 {
                return refuse(function, "its length is 0");
            }
            if function.addr.plus(function.len).is_none() {
                return refuse(function, "its end is behind the end of the address space");
            }
            let overlaps = last.is_some_and(|last| {
                function.addr.is_within(last.addr, last.len)
                    && (function.addr, function.len) != (last.addr, last.len)
            });
            if overlaps {
                return refuse(function, "it overlaps the function before it");
            }
            last = Some(function);
        }
        Ok(())
    }

    fn check_stack_maps(&self) -> Result<(), AdoptionError> {
        let maps = StackMaps::parse(&self.image.stack_maps, self.image.endian)?;
        for function in maps.maps().iter().flat_map(StackMap::headers) {
            let addr = CodeAddr::new(function.address());
            let known = self
                .image
                .functions
                .binary_search_by(|known| known.addr.cmp(&addr));
            if known.is_err() {
                let name = "?".into();
                let reason = "the stack map has a function here, but none was given: add it, or give the \
                              addresses of the functions";
                return Err(AdoptionError::Function { name, addr, reason });
            }
        }
        Ok(())
    }
}

/// The ranges of sorted functions, those that touch as one.
fn joined(functions: &[FunctionRange]) -> Vec<CodeRange> {
    let mut all: Vec<CodeRange> = Vec::new();
    for function in functions {
        let (start, end) = (
            function.addr.get(),
            function.addr.get() + u64::from(function.len.get()),
        );
        let touched = all.last().filter(|last| start <= last.end().get());
        let start = touched.map_or(start, |last| last.start().get());
        let replaced = touched.is_some();
        if let Some(range) = CodeRange::new(CodeAddr::new(start), end - start) {
            if replaced {
                all.pop();
            }
            all.push(range);
        }
    }
    all
}

impl AdoptedCode {
    /// What was described.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Whether the code may have been executed already.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }

    /// What was described.
    #[must_use]
    pub fn into_image(self) -> Image {
        self.image
    }
}

/// The offsets of the address fields of all functions, in order.
fn address_fields(image: &Image) -> Result<Vec<usize>, AdoptionError> {
    let maps = StackMaps::parse(&image.stack_maps, image.endian)?;
    let headers = maps.maps().iter().flat_map(StackMap::headers);
    // Lossless: they lie in the section.
    let fields = headers.map(|function| function.byte_offset().get() as usize);
    Ok(fields.collect())
}
