//! How a prepared transaction shows itself.

use core::fmt;

use super::prepare::{Item, Prepared};
use crate::addr::CodeAddr;
use crate::verify::{self, Line};

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, item) in self.items.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Item {
    /// One site: a line with its address, ID, reserved length and slack, then what stands there and what will.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reserved, used) = (self.site.reserved().get(), self.used.get());
        let slack = reserved.saturating_sub(used);
        writeln!(
            f,
            "{:?}: {reserved} bytes reserved, {used} used, {slack} slack",
            self.site
        )?;
        writeln!(f, "  before")?;
        self.listing(f, self.site.addr(), &self.old)?;
        writeln!(f, "  after")?;
        self.listing(f, self.site.addr(), &self.new)?;
        if let Some(stub) = &self.stub {
            writeln!(f, "  stub")?;
            self.listing(f, stub.slot.addr(), &stub.code)?;
        }
        Ok(())
    }
}

impl Item {
    fn listing(&self, f: &mut fmt::Formatter<'_>, addr: CodeAddr, bytes: &[u8]) -> fmt::Result {
        for line in verify::disassemble(self.site.module().arch(), addr, bytes) {
            writeln!(f, "    {}", Listed(&line))?;
        }
        Ok(())
    }
}

/// A line of disassembly in columns: address, bytes, text.
struct Listed<'a>(&'a Line);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex: Vec<String> = self.0.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(
            f,
            "{:x}  {:<30} {}",
            self.0.addr.get(),
            hex.join(" "),
            self.0.text
        )
    }
}
