//! How a prepared transaction shows itself.

use core::fmt;

use super::commit::Prepared;
use super::work::{Item, Part};
use crate::addr::CodeAddr;
use crate::memory::Side;
use crate::verify::{self, ListingLine};

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = self.work().into_iter().flat_map(|work| &work.items);
        f.debug_list().entries(items.map(|item| &item.site)).finish()
    }
}

/// Each site with its slack and its disassembly before and after.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(work) = self.work() else {
            return Ok(());
        };
        for site in &work.invalidated {
            writeln!(f, "{}: invalidated, stays as it is", site.name())?;
        }
        for (number, ((item, part), write)) in work.both().zip(work.groups.writes()).enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            show(
                f,
                item,
                part,
                [
                    ("before", write.side(Side::Old)),
                    ("after", write.side(Side::New)),
                ],
            )?;
        }
        Ok(())
    }
}

/// One site: a line with its address, ID, reserved length and slack, then what it holds and
/// what will.
fn show(f: &mut fmt::Formatter<'_>, item: &Item, part: &Part, sides: [(&str, &[u8]); 2]) -> fmt::Result {
    let (reserved, used) = (item.site.reserved().get(), item.used.get());
    let slack = reserved.saturating_sub(used);
    writeln!(
        f,
        "{}: {reserved} bytes reserved, {used} used, {slack} slack",
        item.site.name()
    )?;
    for (title, bytes) in sides {
        writeln!(f, "  {title}")?;
        listing(f, item, part.range.start(), bytes)?;
    }
    if let Some(stub) = &part.installed.stub {
        writeln!(f, "  stub")?;
        listing(f, item, stub.slot.addr(), &stub.code)?;
    }
    Ok(())
}

fn listing(f: &mut fmt::Formatter<'_>, item: &Item, addr: CodeAddr, bytes: &[u8]) -> fmt::Result {
    for line in verify::disassemble(item.site.module().arch(), addr, bytes) {
        writeln!(f, "    {}", Listed(&line))?;
    }
    Ok(())
}

/// A line of disassembly in columns: address, bytes, text.
struct Listed<'a>(&'a ListingLine);

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
