//! How a prepared transaction shows itself.

use core::fmt;

use super::change::{ChangeSet, Side, SiteChange, SiteWrite};
use super::commit::Prepared;
use crate::addr::CodeAddr;
use crate::memory::StubPool;
use crate::site::Site;
use crate::verify::{self, ListingLine};

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sites = |set| ChangeSet::sites(set).collect::<Vec<_>>();
        f.debug_list()
            .entries(self.set().into_iter().flat_map(sites))
            .finish()
    }
}

/// Each site with its slack and its disassembly before and after.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(set) = self.set() else {
            return Ok(());
        };
        for site in &set.invalidated {
            writeln!(f, "{}: invalidated, stays as it is", site.name())?;
        }
        for (number, (change, write)) in set.changes.iter().zip(&set.writes).enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            show(f, self.stubs(), (&set.site(change), change), write)?;
        }
        Ok(())
    }
}

/// One site: a line with its address, ID, reserved length and slack, then what it holds and
/// what will.
fn show(
    f: &mut fmt::Formatter<'_>,
    stubs: &StubPool,
    (site, change): (&Site, &SiteChange),
    write: &SiteWrite,
) -> fmt::Result {
    let (reserved, used) = (site.reserved().get(), change.used.get());
    let slack = reserved.saturating_sub(used);
    writeln!(
        f,
        "{}: {reserved} bytes reserved, {used} used, {slack} slack",
        site.name()
    )?;
    for (title, side) in [("before", Side::Old), ("after", Side::New)] {
        writeln!(f, "  {title}")?;
        listing(f, site, write.at, write.side(side))?;
    }
    if let Some(stub) = &change.to_install().stub {
        writeln!(f, "  stub")?;
        match stubs.read(stub.code()) {
            Ok(code) => listing(f, site, stub.slot.addr(), &code)?,
            Err(error) => writeln!(f, "    {error}")?,
        }
    }
    Ok(())
}

fn listing(f: &mut fmt::Formatter<'_>, site: &Site, addr: CodeAddr, bytes: &[u8]) -> fmt::Result {
    for line in verify::disassemble(site.module().arch(), addr, bytes) {
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
