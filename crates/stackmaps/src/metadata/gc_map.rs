//! The map of safepoints and roots that the LLVM plug-in of the plimmix collector writes, version
//! 1.
//!
//! It is in `.data` under the symbol `_IMMIX_GC_MAP_` and the name of the source file, aligned
//! to 8 bytes: functions with their frame size, safepoints (the addresses after calls) and roots
//! (words of the frame, the same at each safepoint), and then the addresses of the module's global
//! variables, all of which may hold roots. Addresses are absolute: read it where it has been loaded
//! and relocated.

use super::cursor::Cursor;
use crate::addr::{ByteOffset, CodeAddr};
use crate::error::{Error, Result};
use crate::{Endian, StackSize};

/// What a root holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RootKind {
    /// Memory without references.
    Atomic,
    /// A trait object: the reference is in its second word.
    Trait,
    /// An object with a method that visits its references.
    Complex,
    /// A reference.
    Pointer,
    /// None of these.
    Other,
}

/// A word of a frame that is a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GcRoot {
    /// Bytes from the stack pointer at the safepoint.
    pub offset: i32,
    /// What it holds.
    pub kind: RootKind,
}

/// A map.
#[derive(Clone, Copy)]
pub struct GcMap<'a> {
    functions: Cursor<'a>,
    count: u32,
    globals: Cursor<'a>,
    global_count: u32,
    end: usize,
}

const VERSION: u32 = 1;
/// The bytes of a root: its offset and its kind.
const ROOT: u64 = 8;

impl<'a> GcMap<'a> {
    /// Reads a map from the address of its symbol on; what follows the map is ignored.
    ///
    /// # Errors
    /// [`Error::TableTruncated`], [`Error::TableCount`], [`Error::GcMapVersion`] and [`Error::GcMapRootKind`], with the offset in `data`.
    pub fn parse(data: &'a [u8], endian: Endian) -> Result<Self> {
        let mut cursor = Cursor::new("GC map", data, endian);
        let version = cursor.uint("the version", 4)? as u32;
        if version != VERSION {
            let at = ByteOffset::new(0);
            return Err(Error::GcMapVersion { at, found: version });
        }
        cursor.align(8);
        let count = cursor.count("the functions")?;
        let functions = cursor;
        for _ in 0..count {
            let function = GcFunction::read(&mut cursor)?;
            function.check_kinds()?;
        }
        let global_count = cursor.count("the globals")?;
        cursor.align(8);
        let globals = cursor;
        cursor.skip("the globals", u64::from(global_count), 8)?;
        Ok(Self {
            functions,
            count,
            globals,
            global_count,
            // Whoever trims the table may cut off the padding before globals that it has not.
            end: cursor.at.min(data.len()),
        })
    }

    /// The functions, in order.
    #[must_use]
    pub fn functions(&self) -> GcFunctions<'a> {
        GcFunctions {
            cursor: self.functions,
            left: self.count,
        }
    }

    /// The addresses of global variables.
    pub fn globals(&self) -> impl ExactSizeIterator<Item = CodeAddr> + use<'a> {
        words(self.globals, self.global_count)
    }

    /// The length of the map in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.end
    }
}

/// The `count` addresses at a cursor, which have been checked to be there.
fn words<'a>(at: Cursor<'a>, count: u32) -> impl ExactSizeIterator<Item = CodeAddr> + use<'a> {
    (0..count as usize).map(move |index| {
        let word = at.bytes.u64(at.at + index * 8);
        CodeAddr::new(word.unwrap_or(0))
    })
}

/// A function of a map.
#[derive(Clone, Copy)]
pub struct GcFunction<'a> {
    entry: CodeAddr,
    frame_words: u32,
    stack_arguments: u32,
    safepoints: Cursor<'a>,
    safepoint_count: u32,
    roots: Cursor<'a>,
    root_count: u32,
}

impl<'a> GcFunction<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.align(8);
        let entry = CodeAddr::new(cursor.uint("a function", 8)?);
        let frame_words = cursor.uint("a frame size", 4)? as u32;
        let stack_arguments = cursor.count("the arguments on the stack")?;
        let root_count = cursor.count("the roots")?;
        let safepoint_count = cursor.count("the safepoints")?;
        let safepoints = *cursor;
        cursor.skip("the safepoints", u64::from(safepoint_count), 8)?;
        let roots = *cursor;
        cursor.skip("the roots", u64::from(root_count), ROOT)?;
        Ok(Self {
            entry,
            frame_words,
            stack_arguments,
            safepoints,
            safepoint_count,
            roots,
            root_count,
        })
    }

    fn check_kinds(&self) -> Result<()> {
        let mut roots = self.roots;
        for _ in 0..self.root_count {
            root(&mut roots)?;
        }
        Ok(())
    }

    /// The function's address.
    #[must_use]
    pub fn entry(&self) -> CodeAddr {
        self.entry
    }

    /// The bytes of its frame, the return address not among them.
    #[must_use]
    pub fn stack_size(&self) -> StackSize {
        // A frame of unknown size is -1 bytes for LLVM; the plug-in divides it by 8 and keeps 32
        // bits.
        match self.frame_words {
            u32::MAX => StackSize::Unknown,
            words => StackSize::Known(u64::from(words) * 8),
        }
    }

    /// How many of its arguments are passed on the stack.
    #[must_use]
    pub fn stack_arguments(&self) -> u32 {
        self.stack_arguments
    }

    /// The addresses to which its calls return.
    pub fn safepoints(&self) -> impl ExactSizeIterator<Item = CodeAddr> + use<'a> {
        words(self.safepoints, self.safepoint_count)
    }

    /// Its roots, the same at each of its safepoints.
    #[must_use]
    pub fn roots(&self) -> GcRoots<'a> {
        GcRoots {
            cursor: self.roots,
            left: self.root_count,
        }
    }
}

fn root(cursor: &mut Cursor<'_>) -> Result<GcRoot> {
    let offset = cursor.uint("a root", 4)? as u32 as i32;
    let at = cursor.offset();
    let kind = match cursor.uint("the kind of a root", 4)? as u32 {
        0 => RootKind::Atomic,
        1 => RootKind::Trait,
        2 => RootKind::Complex,
        3 => RootKind::Pointer,
        4 => RootKind::Other,
        kind => return Err(Error::GcMapRootKind { at, kind }),
    };
    Ok(GcRoot { offset, kind })
}

macro_rules! iterator {
    ($(#[$doc:meta])* $name:ident, $item:ty, $read:expr) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name<'a> {
            cursor: Cursor<'a>,
            left: u32,
        }

        impl<'a> Iterator for $name<'a> {
            type Item = $item;

            fn next(&mut self) -> Option<$item> {
                self.left = self.left.checked_sub(1)?;
                $read(&mut self.cursor).ok()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left as usize, Some(self.left as usize))
            }
        }

        impl ExactSizeIterator for $name<'_> {}
    };
}

iterator!(
    /// Iterates over the functions of a map.
    GcFunctions,
    GcFunction<'a>,
    GcFunction::read
);
iterator!(
    /// Iterates over the roots of a function.
    GcRoots,
    GcRoot,
    root
);
