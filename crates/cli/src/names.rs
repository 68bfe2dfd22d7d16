//! What is at an address.

use std::collections::BTreeMap;

use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::Arch;
use patchpoint::image::FunctionRange;
use patchpoint::site::Module;
use patchpoint::verify::{self, ListingLine, Original};
use serde_json::{Value, json};

use crate::paint::{Paint, Style};

/// Names of addresses.
#[derive(Clone, Default)]
pub(crate) struct Names {
    exact: BTreeMap<u64, String>,
    functions: BTreeMap<u64, (Len, String)>,
}

impl Names {
    pub(crate) fn of(functions: &[FunctionRange], outside: BTreeMap<u64, String>) -> Self {
        let functions = functions
            .iter()
            .map(|f| (f.addr.get(), (f.len, f.name.clone())))
            .collect();
        Self {
            exact: outside,
            functions,
        }
    }

    pub(crate) fn of_module(module: &Module) -> Self {
        let functions = module
            .functions()
            .map(|f| (f.addr().get(), (f.len(), f.name().to_owned())));
        Self {
            exact: BTreeMap::new(),
            functions: functions.collect(),
        }
    }

    pub(crate) fn add(&mut self, addr: CodeAddr, name: impl Into<String>) {
        self.exact.insert(addr.get(), name.into());
    }

    /// The name of an address, if it has one: its own, or its distance from the start of its
    /// function.
    pub(crate) fn get(&self, addr: CodeAddr) -> Option<String> {
        if let Some(name) = self.exact.get(&addr.get()) {
            return Some(name.clone());
        }
        let (start, (len, name)) = self.functions.range(..=addr.get()).next_back()?;
        let inside = addr.is_within(CodeAddr::new(*start), *len) && !name.is_empty();
        inside.then(|| match addr.get() - start {
            0 => name.clone(),
            offset => format!("{name}+{offset:#x}"),
        })
    }

    /// Lines of disassembly, each with what it refers to; `or` knows names that are not here.
    pub(crate) fn listing(
        &self,
        arch: Arch,
        addr: CodeAddr,
        bytes: &[u8],
        or: impl Fn(CodeAddr) -> Option<String>,
    ) -> Vec<Listed> {
        let lines = verify::disassemble(arch, addr, bytes).into_iter();
        lines
            .map(|line| {
                let is_nop = verify::original(arch, line.addr, &line.bytes) == Ok(Original::Nops);
                // Those of SystemZ are branches that are never taken.
                let target = last_address(&line.text).filter(|_| !is_nop);
                Listed {
                    refers_to: target.and_then(|addr| self.get(addr).or_else(|| or(addr))),
                    is_nop,
                    line,
                }
            })
            .collect()
    }
}

/// The last address that an instruction's text names.
fn last_address(text: &str) -> Option<CodeAddr> {
    let (_, last) = text.rsplit_once("0x")?;
    let end = last.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(last.len());
    u64::from_str_radix(last.get(..end)?, 16).ok().map(CodeAddr::new)
}

/// A line of disassembly.
pub(crate) struct Listed {
    pub(crate) line: ListingLine,
    pub(crate) refers_to: Option<String>,
    pub(crate) is_nop: bool,
}

impl Listed {
    pub(crate) fn json(&self) -> Value {
        json!({
            "address": self.line.addr.get(),
            "bytes": hex(&self.line.bytes, ""),
            "text": self.line.text,
            "is_nop": self.is_nop,
            "refers_to": self.refers_to,
        })
    }
}

pub(crate) fn hex(bytes: &[u8], between: &str) -> String {
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.join(between)
}

/// Lines in columns, indented: address, bytes, text, what it refers to.
pub(crate) fn listing_text(lines: &[Listed], indent: usize, paint: Paint) -> String {
    let longest = lines.iter().map(|listed| listed.line.bytes.len()).max();
    let width = (3 * longest.unwrap_or(0)).saturating_sub(1);
    let mut out = String::new();
    for listed in lines {
        let line = &listed.line;
        let text = match listed.is_nop {
            true => {
                let bytes = crate::words::count_u64(line.bytes.len() as u64, "byte");
                paint.of(Style::Dim, format!("nop, {bytes}"))
            }
            false => paint.of(Style::Bold, &line.text),
        };
        let comment = match &listed.refers_to {
            Some(name) => paint.of(Style::Dim, format!("  ; {name}")),
            None => String::new(),
        };
        let (at, bytes) = (line.addr.get(), hex(&line.bytes, " "));
        out.push_str(&format!(
            "{:indent$}{at:x}  {bytes:width$}  {text}{comment}\n",
            ""
        ));
    }
    out
}
