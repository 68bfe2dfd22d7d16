//! A runtime: what its isolates share.

use std::sync::Arc;

use patchpoint::Result;

use super::figures::Figures;
use super::object::Shapes;
use super::tier::{Options, Tiers};
use crate::host::Host;

/// Shapes and, unless it is a plain interpreter, compiled code.
#[derive(Default)]
pub(crate) struct Runtime {
    pub(crate) shapes: Shapes,
    pub(crate) figures: Arc<Figures>,
    tiers: Option<Tiers>,
}

impl Runtime {
    /// A runtime that interprets.
    pub(crate) fn plain() -> Arc<Self> {
        Arc::default()
    }

    /// A runtime whose hot functions are compiled, and executed by that process.
    pub(crate) fn tiered(options: Options, host: &Host) -> Result<Arc<Self>> {
        let figures = Arc::default();
        let tiers = Some(Tiers::new(options, host, &figures)?);
        let shapes = Shapes::default();
        Ok(Arc::new(Self {
            shapes,
            figures,
            tiers,
        }))
    }

    pub(crate) fn tiers(&self) -> Option<&Tiers> {
        self.tiers.as_ref()
    }
}
