//! The symbols of a Mach-O object, and one for each section.

use alloc::format;
use alloc::vec::Vec;

use object::LittleEndian;
use object::macho::{
    N_ABS, N_ALT_ENTRY, N_INDR, N_NO_DEAD_STRIP, N_PEXT, N_SECT, N_UNDF, N_WEAK_DEF, N_WEAK_REF, Nlist64,
    SymbolDesc,
};
use object::read::macho::Section as _;
use object::read::macho::{Nlist as _, SymbolTable};

use super::{ENDIAN, Header, RawSection, Reader};
use crate::error::Result;
use crate::graph::checks::{common, contradiction, in_section, malformed};
use crate::graph::{Definition, Graph, Scope, Section, SectionId, SectionRole, Strength, Symbol};

type Raw = Nlist64<LittleEndian>;

/// What a symbol that is no label cannot start with: labels of the assembler, and those that only a
/// linker sees.
const LABELS: [char; 2] = ['L', 'l'];

impl<'data> Reader<'data> {
    /// The symbols under their indices in the file, then those of the sections.
    pub(crate) fn symbols(&self, graph: &mut Graph<'data>) -> Result<()> {
        let table: SymbolTable<'data, Header> = match self.commands.symtab {
            Some(symtab) => symtab
                .symbols(ENDIAN, self.bytes)
                .map_err(malformed("the symbol table"))?,
            None => SymbolTable::default(),
        };
        let mut symbols = Vec::with_capacity(table.len() + graph.sections.len());
        for raw in table.iter() {
            let name = raw
                .name(ENDIAN, table.strings())
                .map_err(malformed("a symbol's name"))?;
            let mut symbol = Symbol::null();
            symbol.name = self.names.text(name)?;
            if raw.is_stab() {
                symbol.definition = Definition::Refused("it is debug information");
                symbols.push(symbol);
                continue;
            }
            // protection: external-symbols-have-names
            if symbol.name.is_empty() && raw.n_type().is_ext() {
                let reason = format!(
                    "that of symbol {}, which others may name, is empty",
                    symbols.len()
                );
                return Err(contradiction("a symbol's name", reason));
            }
            symbol.definition = self.definition(graph, raw, &symbol.name)?;
            if let Definition::Common { .. } = symbol.definition {
                symbol.size = raw.n_value(ENDIAN);
            }
            symbol.scope = scope(raw);
            symbol.strength = strength(raw, symbol.definition);
            if let Definition::Section(id, _) = symbol.definition {
                let desc = raw.n_desc(ENDIAN);
                let section = graph.sections.get_mut(id.index());
                symbol.function = starts_function(section.as_deref(), desc, &symbol.name);
                if let (Some(section), true) = (section, desc.contains(N_NO_DEAD_STRIP)) {
                    section.retained = true;
                }
            }
            symbols.push(symbol);
        }
        for (id, section) in (0..).map(SectionId).zip(&graph.sections) {
            let mut symbol = Symbol::null();
            symbol.name = section.name.clone();
            symbol.definition = match section.role {
                SectionRole::Ignored => Definition::Refused("its section is not loaded"),
                _ => Definition::Section(id, 0),
            };
            symbols.push(symbol);
        }
        graph.symbols = symbols;
        Ok(())
    }

    fn definition(&self, graph: &Graph<'data>, raw: &Raw, name: &str) -> Result<Definition> {
        let value = raw.n_value(ENDIAN);
        match raw.n_type().typ() {
            N_SECT => {
                let number = usize::from(raw.n_sect());
                let Some(section) = number.checked_sub(1).and_then(|index| self.raw_section(index)) else {
                    let reason = format!("section {number} of symbol `{name}` is not there");
                    return Err(contradiction("a symbol's section", reason));
                };
                // Before its section: an offset that no section has.
                let offset = value.checked_sub(section.addr(ENDIAN)).unwrap_or(u64::MAX);
                in_section(&graph.sections, number, offset, name)
            }
            N_ABS => Ok(Definition::Absolute(value)),
            N_UNDF if value != 0 && raw.n_type().is_ext() => {
                common(name, 1 << raw.n_desc(ENDIAN).common_alignment())
            }
            N_UNDF => Ok(Definition::Undefined {
                weak: raw.n_desc(ENDIAN).contains(N_WEAK_REF),
            }),
            N_INDR => Ok(Definition::Refused(
                "it is another name of a symbol of another image: refer to that one",
            )),
            _ => Ok(Definition::Refused("only linked files have symbols of its type")),
        }
    }

    pub(crate) fn raw_section(&self, index: usize) -> Option<&'data RawSection> {
        self.commands.sections.get(index).copied()
    }
}

fn scope(raw: &Raw) -> Scope {
    match (raw.n_type().is_ext(), raw.n_type().contains(N_PEXT)) {
        (false, false) => Scope::Local,
        // A private one whose N_EXT is gone was made local by a linker that joined objects.
        (false, true) => Scope::Local,
        (true, true) => Scope::Hidden,
        (true, false) => Scope::Exported,
    }
}

fn strength(raw: &Raw, definition: Definition) -> Strength {
    match definition {
        Definition::Undefined { weak: true } => Strength::WeakReference,
        Definition::Undefined { weak: false } => Strength::Reference,
        Definition::Common { .. } => Strength::Common,
        // With N_WEAK_REF too, it is one that a linker may hide where nobody takes its address.
        _ if raw.n_desc(ENDIAN).contains(N_WEAK_DEF) => Strength::Weak,
        _ => Strength::Strong,
    }
}

/// Whether a symbol is that of a function: it is in code, no label, and not within another
/// function.
fn starts_function(section: Option<&Section<'_>>, desc: SymbolDesc, name: &str) -> bool {
    section.is_some_and(|section| section.role == SectionRole::Code)
        && !desc.contains(N_ALT_ENTRY)
        && !name.starts_with(LABELS)
}
