//! Code that somebody else loaded: the way without the linker.
#![allow(
    unsafe_code,
    reason = "the promise about foreign memory is an unsafe function"
)]

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use gimli::UnwindSection;

use super::{AdoptionError, CodeTable, EhFrame, FunctionRange, Graph, Image, Object};
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

    /// Code of which no stack map tells: its sites are told when it is
    /// [registered](crate::engine::Registration::site), or there are none.
    #[must_use]
    pub fn without_stack_maps(arch: Arch) -> Self {
        Self::new(arch, arch.endian(), Vec::new())
    }

    /// Code that another linker has placed, such as that of MCJIT or ORC: its functions with their
    /// sizes, its stack maps, if it has any, its unwind information and tables, as the object says.
    /// `address` is asked for the address of each section that is loaded, by its index in the file
    /// and its name; `None` is for what was not placed.
    ///
    /// The sections have to be in memory as the object has them: a linker that makes code shorter
    /// (relaxation on RISC-V) moves the rest to other offsets.
    ///
    #[cfg_attr(all(target_os = "linux", not(miri)), doc = "```")]
    #[cfg_attr(not(all(target_os = "linux", not(miri))), doc = "```ignore")]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let object: &[u8] = include_bytes!("../../examples/objects/inline_cache.o");
    /// use patchpoint::addr::CodeAddr;
    /// use patchpoint::image::Adoption;
    ///
    /// // In LLVM's `NotifyLoaded`: `Loaded.getSectionLoadAddress(Section)`.
    /// let adoption = Adoption::from_object(object, |_index, name| match name {
    ///     ".text" => Some(CodeAddr::new(0x7f00_0000_0000)),
    ///     ".eh_frame" => Some(CodeAddr::new(0x7f00_0000_1000)),
    ///     _ => None,
    /// })?;
    /// # let functions: Vec<_> = adoption.functions().collect();
    /// # assert_eq!(functions[0].name, "get");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AdoptionError::Link`]: the object is damaged; its stack maps, unwind information or tables refer to a section without an
    /// address, or to a symbol that it does not define: give no address for those, then.
    pub fn from_object(
        object: &[u8],
        mut address: impl FnMut(usize, &str) -> Option<CodeAddr>,
    ) -> Result<Self, AdoptionError> {
        let image = Object::parse(object).and_then(|object| {
            let graph = Graph::new("object", object);
            graph.placed(|id, name| address(id.index(), name))
        });
        Ok(Self {
            image: image.map_err(Box::new)?,
            may_have_run: true,
        })
    }

    /// The functions that are known so far.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionRange> {
        self.image.functions.iter()
    }

    /// Adds the functions of which the unwind information tells that was
    /// [given](Self::eh_frame), each with its address and size, under the names that `name` has for
    /// their addresses. Those without one are named by their addresses; those that are known already
    /// stay as they are.
    ///
    /// # Errors
    /// [`AdoptionError::EhFrame`]: the unwind information cannot be read; [`AdoptionError::Function`]: a function is longer than
    /// 4 GiB, or is called through a descriptor (PowerPC ELFv1), of which unwind information does not tell.
    pub fn functions_from_eh_frame(
        mut self,
        mut name: impl FnMut(CodeAddr) -> Option<String>,
    ) -> Result<Self, AdoptionError> {
        let mut known: BTreeSet<CodeAddr> = self.functions().map(|function| function.addr).collect();
        let mut found = Vec::new();
        for frames in &self.image.eh_frames {
            found.extend(covered(self.image.endian, frames)?);
        }
        for (addr, len) in found {
            if len == 0 || !known.insert(addr) {
                continue;
            }
            let name = name(addr).unwrap_or_else(|| format!("function at {addr}"));
            let refused = |name: String, reason| AdoptionError::Function { name, addr, reason };
            if self.image.arch.has_descriptors() {
                return Err(refused(
                    name,
                    "it is called through a descriptor: give it, and the address of that by `called_at`",
                ));
            }
            let Ok(len) = u32::try_from(len) else {
                return Err(refused(name, "it is longer than 4 GiB"));
            };
            self = self.function(name, addr, Len::new(len));
        }
        Ok(self)
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

/// The code that unwind information covers: each address with a length in bytes.
fn covered(endian: Endian, frames: &EhFrame) -> Result<Vec<(CodeAddr, u64)>, AdoptionError> {
    let refused = |why: gimli::Error| AdoptionError::EhFrame {
        addr: frames.addr,
        why: why.to_string(),
    };
    let endian = match endian {
        Endian::Little => gimli::RunTimeEndian::Little,
        Endian::Big => gimli::RunTimeEndian::Big,
    };
    let mut section = gimli::EhFrame::new(&frames.bytes, endian);
    section.set_address_size(8);
    let bases = gimli::BaseAddresses::default().set_eh_frame(frames.addr.get());
    let (mut entries, mut found) = (section.entries(&bases), Vec::new());
    while let Some(entry) = entries.next().map_err(refused)? {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let entry = partial.parse(gimli::EhFrame::cie_from_offset).map_err(refused)?;
            found.push((CodeAddr::new(entry.initial_address()), entry.len()));
        }
    }
    Ok(found)
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
