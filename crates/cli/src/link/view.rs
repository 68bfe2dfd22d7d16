//! What checks want to know of a linked graph.

use std::collections::HashMap;

use patchpoint::addr::CodeAddr;
use patchpoint::arch::Arch;
use patchpoint::image::{LinkedImage, ObjectFormat, Resolved, Scope, SectionId, SymbolId};

use crate::args::Symbol;

use super::check::{Symbolic, Target, Unknown};

/// A graph with its addresses and final bytes, by name.
pub(super) struct View<'v> {
    resolved: &'v Resolved<'v>,
    image: &'v LinkedImage,
    /// What the command line tells of symbols.
    defines: &'v [Symbol],
    symbols: HashMap<&'v str, Vec<SymbolId>>,
    /// By file and name.
    sections: HashMap<(usize, &'v str), Vec<SectionId>>,
}

impl<'v> View<'v> {
    pub(super) fn of(resolved: &'v Resolved<'v>, image: &'v LinkedImage, defines: &'v [Symbol]) -> Self {
        let graph = resolved.graph();
        let mut symbols: HashMap<_, Vec<_>> = HashMap::new();
        for (id, symbol) in graph.symbol_ids().zip(graph.symbols()) {
            symbols.entry(symbol.name()).or_default().push(id);
        }
        let mut sections: HashMap<_, Vec<_>> = HashMap::new();
        for (id, section) in graph.section_ids().zip(graph.sections()) {
            sections
                .entry((section.file(), section.name()))
                .or_default()
                .push(id);
        }
        Self {
            resolved,
            image,
            defines,
            symbols,
            sections,
        }
    }

    /// The index of a file that is named by its path or, if that leaves no doubt, without its
    /// folder.
    fn file(&self, name: &str) -> Result<usize, Unknown> {
        let files = self.resolved.graph().files();
        let find = |is: &dyn Fn(&str) -> bool| {
            let mut found = files.iter().enumerate().filter(|(_, file)| is(file));
            (found.next(), found.next())
        };
        let found = match find(&|file| file == name) {
            (None, _) => find(&|file| file.rsplit(['/', '\\']).next() == Some(name)),
            found => found,
        };
        match found {
            (Some((index, _)), None) => Ok(index),
            (None, _) => Err(Unknown::File(name.to_owned())),
            (Some(_), Some(_)) => Err(Unknown::Files(name.to_owned())),
        }
    }

    /// The symbols of this name: those of one file, and then those that files share.
    fn named(&self, name: &str, file: Option<usize>) -> impl Iterator<Item = SymbolId> {
        let ids = self.symbols.get(name).map_or(&[][..], Vec::as_slice);
        let symbols = self.resolved.graph().symbols();
        let symbol = |id: &SymbolId| symbols.get(id.index());
        let own = ids
            .iter()
            .filter(move |id| symbol(id).is_some_and(|symbol| Some(symbol.file()) == file));
        let shared = ids
            .iter()
            .filter(move |id| symbol(id).is_some_and(|symbol| symbol.scope() != Scope::Local));
        own.chain(shared).copied()
    }

    /// A symbol that no object refers to: told on the command line, or the linker's own.
    fn unmentioned(&self, name: &str) -> Option<u64> {
        if let Some(told) = self.defines.iter().find(|symbol| symbol.name == name) {
            return Some(told.addr);
        }
        let graph = self.resolved.graph();
        let got = match graph.arch() {
            arch if arch.is_powerpc64() => ".TOC.",
            _ => "_GLOBAL_OFFSET_TABLE_",
        };
        match graph.format() {
            ObjectFormat::Elf if name == got => self.image.got().map(CodeAddr::get),
            ObjectFormat::Coff if name == "__ImageBase" => Some(self.image.image_base().get()),
            _ => None,
        }
    }

    fn symbol_addr(&self, id: SymbolId) -> Option<u64> {
        self.resolved.symbol_addr(id).map(CodeAddr::get)
    }
}

impl Target for View<'_> {
    fn arch(&self) -> Arch {
        self.resolved.graph().arch()
    }

    fn bytes(&self, addr: u64, size: u64) -> Option<Vec<u8>> {
        let (at, size) = (CodeAddr::new(addr), usize::try_from(size).ok()?);
        let mut segments = self.image.segments.iter();
        segments.find_map(|segment| segment.read(at, size))
    }

    fn room(&self, addr: u64) -> u64 {
        let rooms = self.image.segments.iter().filter_map(|segment| {
            let inside = CodeAddr::new(addr).is_within(segment.addr, segment.size);
            inside.then(|| u64::from(segment.size.get()) - (addr - segment.addr.get()))
        });
        rooms.max().unwrap_or(0)
    }

    fn symbol(&self, name: &str) -> Result<u64, Unknown> {
        if let Some(addr) = self.named(name, None).find_map(|id| self.symbol_addr(id)) {
            return Ok(addr);
        }
        let local = self.symbols.get(name).into_iter().flatten();
        let mut addrs = local.filter_map(|id| self.symbol_addr(*id));
        match addrs.next() {
            None => self
                .unmentioned(name)
                .ok_or_else(|| Unknown::Symbol(name.to_owned())),
            // protection: names-of-several-symbols-are-refused
            Some(addr) if addrs.all(|other| other == addr) => Ok(addr),
            Some(_) => Err(Unknown::Symbols(name.to_owned())),
        }
    }

    fn section(&self, file: &str, section: &str) -> Result<u64, Unknown> {
        let index = self.file(file)?;
        let unknown = |unknown: fn(String, String) -> Unknown| unknown(file.to_owned(), section.to_owned());
        match self
            .sections
            .get(&(index, section))
            .map_or(&[][..], Vec::as_slice)
        {
            [] => Err(unknown(|file, section| Unknown::Section { file, section })),
            [id] => {
                let addr = self.resolved.section_addr(*id).map(CodeAddr::get);
                addr.ok_or_else(|| unknown(|file, section| Unknown::NotPlaced { file, section }))
            }
            _ => Err(unknown(|file, section| Unknown::Sections { file, section })),
        }
    }

    fn symbolic(&self, which: Symbolic, file: &str, symbol: &str) -> Result<u64, Unknown> {
        let index = self.file(file)?;
        let addr = |id| match which {
            Symbolic::Stub => self.resolved.stub_addr(id),
            Symbolic::GotEntry => self.resolved.got_entry_addr(id),
        };
        let found = self.named(symbol, Some(index)).find_map(addr);
        found
            .map(CodeAddr::get)
            .ok_or_else(|| Unknown::Entry(symbol.to_owned(), which.name()))
    }
}
