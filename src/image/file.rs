//! One relocatable object, read from its bytes.

use super::graph::Graph;
use super::layout::Layout;
use crate::arch::Arch;
use crate::error::Result;
use crate::stackmap::Endian;

/// A relocatable object, read and checked: the graph of one file.
///
/// It borrows the bytes that it was read from. [`Object::layout`] is the next step, or [`Graph::new`] if it is linked
/// together with others, or changed first.
#[derive(Clone, Debug)]
pub struct Object<'data> {
    /// Of a file without a name.
    pub(super) graph: Graph<'data>,
}

impl<'data> Object<'data> {
    /// The architecture.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.graph.arch
    }

    /// The byte order of data, and of instructions.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.graph.endian()
    }

    /// What is in it.
    #[must_use]
    pub fn graph(&self) -> &Graph<'data> {
        &self.graph
    }

    /// Gives everything a place, as it is and without others.
    ///
    /// # Errors
    /// As [`Graph::layout`].
    pub fn layout(self) -> Result<Layout<'data>> {
        self.graph.layout()
    }
}
