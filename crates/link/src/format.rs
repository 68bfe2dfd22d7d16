//! The formats of object files, and how they name the symbols of C.

use alloc::format;
use alloc::string::String;

/// The format of an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectFormat {
    /// Of Linux and most others.
    Elf,
    /// Of Apple's systems.
    MachO,
    /// Of Windows.
    Coff,
}

/// The symbol of COFF for the address that 32-bit addresses count from.
pub(crate) const IMAGE_BASE: &str = "__ImageBase";

impl ObjectFormat {
    /// The name in C of a symbol: in Mach-O without the underscore that all names of C start with,
    /// in the other formats as it is. `None` for one that C cannot name.
    ///
    /// Resolvers are asked for symbols as the object has them. One that looks C functions up passes
    /// what it is asked for through [`Graph::format`](crate::Graph::format) and this.
    ///
    /// ```
    /// use patchpoint_link::ObjectFormat;
    ///
    /// assert_eq!(ObjectFormat::MachO.c_name("_puts"), Some("puts"));
    /// assert_eq!(ObjectFormat::MachO.c_name("dyld_stub_binder"), None);
    /// assert_eq!(ObjectFormat::Elf.c_name("puts"), Some("puts"));
    /// ```
    #[must_use]
    pub fn c_name(self, symbol: &str) -> Option<&str> {
        match self {
            Self::MachO => symbol.strip_prefix('_'),
            Self::Elf | Self::Coff => Some(symbol),
        }
    }

    /// The symbol of a name in C: the other way round.
    #[must_use]
    pub fn symbol(self, c_name: &str) -> String {
        match self {
            Self::MachO => format!("_{c_name}"),
            Self::Elf | Self::Coff => c_name.into(),
        }
    }
}
