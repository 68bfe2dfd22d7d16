//! The names of code.

use crate::addr::CodeRange;
#[cfg(target_os = "linux")]
use crate::engine::Placed;
use crate::site::{Function, Module};

/// A piece of code with its name.
pub(super) struct Named {
    pub(super) range: CodeRange,
    pub(super) name: String,
}

/// The functions of a module.
pub(super) fn functions(module: &Module) -> impl Iterator<Item = Named> + '_ {
    module.functions().filter_map(|function| {
        let range = CodeRange::new(function.addr(), u64::from(function.len().get()))?;
        let name = one_line(&name_of(&function));
        (!range.is_empty()).then_some(Named { range, name })
    })
}

/// Out-of-line code.
pub(super) fn placed(placed: &Placed<'_>) -> Named {
    let site = placed.site;
    let (offset, id) = (site.offset(), site.id().get());
    let kind = placed.kind.name().replace(' ', "-");
    let function = one_line(&name_of(&site.function()));
    Named {
        range: placed.range,
        name: format!("{function}{offset}.id{id}.{kind}{}", placed.generation),
    }
}

/// The name of a function; of one without, its address.
fn name_of(function: &Function) -> String {
    match function.name() {
        "" => format!("function_{:x}", function.addr().get()),
        name => name.into(),
    }
}

/// Names are in lines, and end at a zero. A runtime may have given others.
fn one_line(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
