//! Common symbols: data without a section of its own, which gets one for all of them when the graph
//! is laid out.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::graph::{Definition, Graph, Section, SectionId, SectionRole};

/// Its name.
const COMMON: &str = "COMMON";

impl Graph<'_> {
    /// Gives every common symbol a place in a section behind the others, in their order.
    pub(crate) fn place_commons(&mut self) -> Result<()> {
        let limit = self.size_limit;
        let too_large = |size| Error::ImageTooLarge { size, limit };
        let id = u32::try_from(self.sections.len()).map(SectionId);
        let id = id.map_err(|_| too_large(self.sections.len() as u64))?;
        let (mut size, mut strictest, mut any) = (0_u64, 1, false);
        for symbol in &mut self.symbols {
            let Definition::Common { align } = symbol.definition else {
                continue;
            };
            let start = size.next_multiple_of(u64::from(align.max(1)));
            let end = start.saturating_add(symbol.size);
            let (Ok(offset), true) = (u32::try_from(start), end <= limit) else {
                return Err(too_large(end));
            };
            symbol.definition = Definition::Section(id, offset);
            (size, strictest, any) = (end, align.max(strictest), true);
        }
        if any {
            self.sections.push(Section {
                name: Cow::Borrowed(COMMON),
                file: 0,
                role: SectionRole::Data,
                align: strictest,
                size: u32::try_from(size).map_err(|_| too_large(size))?,
                bytes: Cow::Borrowed(&[]),
                edges: Vec::new(),
                about_code: false,
                about: None,
                list: None,
                retained: false,
            });
        }
        Ok(())
    }
}
