//! The symbols of a COFF object.

use alloc::format;
use alloc::vec::Vec;

use object::SymbolIndex;
use object::pe::{
    IMAGE_SYM_ABSOLUTE, IMAGE_SYM_CLASS_EXTERNAL, IMAGE_SYM_CLASS_LABEL, IMAGE_SYM_CLASS_SECTION,
    IMAGE_SYM_CLASS_STATIC, IMAGE_SYM_CLASS_WEAK_EXTERNAL, IMAGE_SYM_DTYPE_FUNCTION, IMAGE_SYM_UNDEFINED,
};
use object::read::coff::{CoffHeader, Symbol as _};

use super::Reader;
use crate::error::Result;
use crate::format::IMAGE_BASE;
use crate::graph::checks::{common, contradiction, in_section, malformed};
use crate::graph::{Definition, Graph, Scope, SectionRole, Strength, Symbol};

/// Common symbols have no alignment of their own: linkers align them to their size, up to this.
const COMMON_ALIGN: u64 = 32;

impl<'data, Header: CoffHeader> Reader<'data, Header> {
    /// The symbols under their indices in the file. What belongs to one has indices, too.
    pub(crate) fn symbols(&self, graph: &mut Graph<'data>) -> Result<()> {
        let mut symbols = Vec::with_capacity(self.symbols.len().max(1));
        let mut weak = Vec::new();
        for (SymbolIndex(index), raw) in self.symbols.iter() {
            symbols.resize_with(index, nothing);
            let name = raw
                .name(self.symbols.strings())
                .map_err(malformed("a symbol's name"))?;
            let mut symbol = nothing();
            symbol.name = self.names.text(name)?;
            match raw.storage_class() {
                IMAGE_SYM_CLASS_EXTERNAL => symbol.scope = Scope::Exported,
                IMAGE_SYM_CLASS_STATIC | IMAGE_SYM_CLASS_LABEL | IMAGE_SYM_CLASS_SECTION => {}
                IMAGE_SYM_CLASS_WEAK_EXTERNAL => {
                    symbol.scope = Scope::Exported;
                    weak.push(index);
                    symbols.push(symbol);
                    continue;
                }
                _ => {
                    symbols.push(symbol);
                    continue;
                }
            }
            self.define(graph, raw, &mut symbol)?;
            symbols.push(symbol);
        }
        symbols.resize_with(self.symbols.len().max(1), nothing);
        for index in weak {
            self.define_weak(index, &mut symbols)?;
        }
        graph.symbols = symbols;
        Ok(())
    }

    fn define(&self, graph: &Graph<'data>, raw: &Header::Symbol, symbol: &mut Symbol<'_>) -> Result<()> {
        let value = u64::from(raw.value());
        symbol.definition = match raw.section_number() {
            IMAGE_SYM_UNDEFINED if symbol.scope == Scope::Local => {
                Definition::Refused("it is local, but not in this object")
            }
            IMAGE_SYM_UNDEFINED if symbol.name == IMAGE_BASE => Definition::ImageBase,
            IMAGE_SYM_UNDEFINED if value != 0 => {
                symbol.size = value;
                common(&symbol.name, value.next_power_of_two().min(COMMON_ALIGN))?
            }
            IMAGE_SYM_UNDEFINED => Definition::Undefined { weak: false },
            IMAGE_SYM_ABSOLUTE => Definition::Absolute(value),
            number => match number.index() {
                Some(number) => in_section(&graph.sections, number as usize, value, &symbol.name)?,
                None => Definition::Refused("it is debug information"),
            },
        };
        symbol.strength = match symbol.definition {
            Definition::Undefined { .. } => Strength::Reference,
            // Several objects name it, and it is the same in all.
            Definition::ImageBase => Strength::Weak,
            Definition::Common { .. } => Strength::Common,
            _ => Strength::Strong,
        };
        if let Definition::Section(id, _) = symbol.definition {
            let role = graph.section(id).map(|section| section.role);
            symbol.function =
                role == Some(SectionRole::Code) && raw.derived_type() == IMAGE_SYM_DTYPE_FUNCTION;
        }
        Ok(())
    }

    /// A weak external symbol is its default, and gives way. Where that is 0, it may be undefined.
    fn define_weak(&self, index: usize, symbols: &mut [Symbol<'data>]) -> Result<()> {
        let raw = self
            .symbols
            .aux_weak_external(SymbolIndex(index))
            .map_err(malformed("a weak symbol"))?;
        let SymbolIndex(default) = raw.default_symbol();
        let Some(default) = symbols.get(default).cloned() else {
            let reason = format!("symbol {default}, the default of symbol {index}, is not there");
            return Err(contradiction("a weak symbol", reason));
        };
        let Some(symbol) = symbols.get_mut(index) else {
            return Ok(());
        };
        (symbol.definition, symbol.strength) = match default.definition {
            Definition::Absolute(0) => (Definition::Undefined { weak: true }, Strength::WeakReference),
            Definition::Undefined { .. } | Definition::Common { .. } => (
                Definition::Refused("it stands for a symbol that this object does not define: name that one"),
                Strength::Weak,
            ),
            definition => (definition, Strength::Weak),
        };
        symbol.function = default.function;
        Ok(())
    }
}

/// What has an index that no symbol has that could be linked to.
fn nothing<'data>() -> Symbol<'data> {
    Symbol {
        definition: Definition::Refused("it is no symbol but a part of one, or of debug information"),
        ..Symbol::null()
    }
}
