//! The object of the example `live_stress`, read by hand: its code for a process that has no
//! loader, and its stack map.

use object::{Object as _, ObjectSection, ObjectSymbol, RelocationTarget};

#[path = "../../../../examples/objects/mod.rs"]
mod compiled;

pub(crate) use compiled::{any_reserved, call_reserved};

pub(crate) struct Object {
    /// Its code, with the callee's address in it.
    pub(crate) text: Vec<u8>,
    pub(crate) stack_maps: Vec<u8>,
    /// Name, offset and length; in the order of the stack map.
    pub(crate) functions: Vec<(String, u64, u64)>,
}

impl Object {
    pub(crate) fn new(callee: u64) -> Self {
        let file = object::File::parse(compiled::LIVE_STRESS).unwrap();
        let section = file.section_by_name(".text").unwrap();
        let mut text = section.data().unwrap().to_vec();
        for (at, _) in section.relocations() {
            let field = &mut text[at as usize..][..8];
            field.copy_from_slice(&callee.to_le_bytes());
        }
        let maps = file.section_by_name(".llvm_stackmaps").unwrap();
        let mut named: Vec<_> = maps.relocations().collect();
        named.sort_by_key(|(at, _)| *at);
        let function = |(_, relocation): (u64, object::Relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                panic!("a function is a symbol");
            };
            let symbol = file.symbol_by_index(index).unwrap();
            (symbol.name().unwrap().to_owned(), symbol.address(), symbol.size())
        };
        Self {
            text,
            stack_maps: maps.data().unwrap().to_vec(),
            functions: named.into_iter().map(function).collect(),
        }
    }

    /// Offset and length of a function.
    pub(crate) fn function(&self, name: &str) -> (u64, u64) {
        let mut functions = self.functions.iter();
        let (_, at, len) = functions.find(|(found, _, _)| found == name).unwrap();
        (*at, *len)
    }
}
