//! Modules of any size that no compiler has made: functions of five patchpoints each, with code and
//! a stack map like LLVM's, in one memory of the library's.

use std::sync::Arc;

use patchpoint::CallShape;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::engine::{Engine, LoadedCode};
use patchpoint::image::{AdoptedCode, Adoption};
use patchpoint::memory::{Arena, CodeMemory, PlacedSegments, Reach, SegmentKind, SegmentNeed};
use patchpoint::site::{Candidate, Module};
use patchpoint::stackmap::Endian;

use crate::pages::PAGE;
use crate::subject::RESERVED;

/// The patchpoints of a function.
pub const SITES: usize = 5;
/// The bytes of a function.
const FUNCTION: usize = 192;

/// What the sites are.
pub fn shape(_: &Candidate<'_>) -> CallShape {
    CallShape::any_reg(RESERVED as u32).result().args(1)
}

/// Code and stack maps of some modules, in memory.
pub struct SyntheticModules {
    placed: PlacedSegments,
    memory: Arc<dyn CodeMemory>,
    /// Of each module: the number of its first function, and how many sites it has.
    modules: Vec<(usize, usize)>,
}

impl SyntheticModules {
    /// Makes so many sites in all, in so many modules, whose numbers of sites differ by one at
    /// most.
    pub fn new(sites: usize, modules: usize) -> Self {
        let mut spans = Vec::with_capacity(modules);
        let mut functions = 0;
        for module in 0..modules {
            let count = sites * (module + 1) / modules - sites * module / modules;
            spans.push((functions, count));
            functions += count.div_ceil(SITES);
        }
        let need = SegmentNeed {
            kind: SegmentKind::Code,
            len: (functions * FUNCTION) as u64,
            align: PAGE as u64,
        };
        let mut placement = Arena::default().place(&[need], Reach::Anywhere).unwrap();
        let start = placement.segments()[0].range.start();
        placement.fill(start, &function().repeat(functions)).unwrap();
        let placed = placement.finalize().unwrap();
        // SAFETY: an engine alone writes through it.
        let memory: Arc<dyn CodeMemory> = Arc::new(unsafe { placed.writable() });
        Self {
            placed,
            memory,
            modules: spans,
        }
    }

    /// Puts the bytes back that every engine expects: those of a module are gone with what patched
    /// them.
    pub fn rewrite(&self) {
        let (start, mut at) = (self.placed.segments()[0].range, 0);
        let function = function();
        while at < start.len() {
            let addr = CodeAddr::new(start.start().get() + at);
            let live = self.memory.live().unwrap();
            live.write_unexecuted(addr, &function).unwrap();
            at += FUNCTION as u64;
        }
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The stack map of a module. IDs count up, over all modules.
    pub fn map(&self, module: usize) -> Vec<u8> {
        let (first, sites) = self.modules[module];
        let before: usize = self.modules[..module].iter().map(|(_, sites)| sites).sum();
        let counts = functions(first, sites).map(|(number, count)| (self.addr(number), count));
        map(&counts.collect::<Vec<_>>(), before as u64)
    }

    /// The stack maps of all modules. IDs count up.
    pub fn maps(&self) -> Vec<Vec<u8>> {
        let mut id = 0;
        let one = |&(first, sites): &(usize, usize)| {
            let counts = functions(first, sites).map(|(number, count)| (self.addr(number), count));
            let map = map(&counts.collect::<Vec<_>>(), id);
            id += sites as u64;
            map
        };
        self.modules.iter().map(one).collect()
    }

    fn addr(&self, function: usize) -> CodeAddr {
        let start = self.placed.segments()[0].range.start().get();
        CodeAddr::new(start + (function * FUNCTION) as u64)
    }

    /// The code of a module, ready to be registered.
    pub fn code(&self, engine: &Engine, module: usize, map: Vec<u8>) -> LoadedCode {
        let (first, sites) = self.modules[module];
        let mut adoption = Adoption::new(Arch::X86_64, Endian::Little, map).not_yet_run();
        for (number, _) in functions(first, sites) {
            adoption = adoption.function(format!("f{number}"), self.addr(number), Len::new(FUNCTION as u32));
        }
        // SAFETY: the memory is the library's, nobody else writes it, and the code is not executed.
        let adopted: AdoptedCode = unsafe { adoption.promise() }.unwrap();
        engine.adopt_with(adopted, &self.memory).unwrap()
    }

    /// Registers all modules.
    pub fn register(&self, engine: &Engine) -> Vec<Module> {
        self.register_as(engine, false)
    }

    /// Registers all modules, live or not.
    pub fn register_as(&self, engine: &Engine, live: bool) -> Vec<Module> {
        let codes = self.maps().into_iter().enumerate();
        let one = |(module, map)| {
            let registration = engine.registration(self.code(engine, module, map));
            let registration = if live { registration.live() } else { registration };
            // SAFETY: what is told is true of the object's code, or refused.
            unsafe { registration.register(shape) }.unwrap()
        };
        codes.map(one).collect()
    }
}

/// The numbers of a module's functions, each with how many sites it has.
fn functions(first: usize, sites: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = sites.div_ceil(SITES);
    (0..count).map(move |at| (first + at, SITES.min(sites - at * SITES)))
}

/// A function: calls as LLVM leaves them, with nops behind, between moves; the rest is traps.
fn function() -> Vec<u8> {
    let mut code = vec![0x48, 0x89, 0xf8];
    for _ in 0..SITES {
        // movabs r11, 0x1122334455; call r11; two nops of 9 bytes and one of one.
        code.extend([
            0x49, 0xbb, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0x41, 0xff, 0xd3,
        ]);
        code.extend([0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0].repeat(2));
        code.push(0x90);
        code.extend([0x48, 0x89, 0xc7]);
    }
    code.push(0xc3);
    code.resize(FUNCTION, 0xcc);
    code
}

/// The offset of a site in its function.
fn offset(site: usize) -> u32 {
    (3 + site * (RESERVED + 3)) as u32
}

/// A stack map of version 3 of functions with so many records each (layout: LLVM's documentation of
/// stack maps). A record takes 128 bytes.
fn map(functions: &[(CodeAddr, usize)], first_id: u64) -> Vec<u8> {
    let records: usize = functions.iter().map(|(_, count)| count).sum();
    let mut map = Vec::with_capacity(16 + 24 * functions.len() + 128 * records);
    map.extend([3, 0, 0, 0]);
    for count in [functions.len(), 0, records] {
        map.extend((count as u32).to_le_bytes());
    }
    for (addr, count) in functions {
        for field in [addr.get(), 8, *count as u64] {
            map.extend(field.to_le_bytes());
        }
    }
    let mut id = first_id;
    for (_, count) in functions {
        for site in 0..*count {
            record(id, offset(site), &mut map);
            id += 1;
        }
    }
    map
}

/// The result in rax, the argument in rdi, values in rsi, rdx, rcx, a slot, a constant, and a
/// slot's address; rbx and rbp live out.
fn record(id: u64, offset: u32, map: &mut Vec<u8>) {
    const LOCATIONS: [(u8, u16, i32); 8] = [
        (1, 0, 0),
        (1, 5, 0),
        (1, 4, 0),
        (1, 1, 0),
        (1, 2, 0),
        (3, 6, -16),
        (4, 0, 17),
        (2, 6, -32),
    ];
    map.extend(id.to_le_bytes());
    map.extend(offset.to_le_bytes());
    map.extend([0, 0, LOCATIONS.len() as u8, 0]);
    for (kind, register, value) in LOCATIONS {
        map.extend([kind, 0, 8, 0]);
        map.extend(register.to_le_bytes());
        map.extend([0, 0]);
        map.extend(value.to_le_bytes());
    }
    map.extend([0, 0, 2, 0]);
    map.extend([3, 0, 0, 8, 6, 0, 0, 8]);
    map.resize(map.len().next_multiple_of(8), 0);
}
