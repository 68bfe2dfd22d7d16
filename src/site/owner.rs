//! To whom a module belongs, without knowing of engines.
//!
//! Sites are below the engine: it knows of them, and they do not know of it. So a module keeps a
//! name of its owner whose type is forgotten, and the engine asks for it by its own type.

use core::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use super::alike::FormNumbers;
use super::unused::Unused;

/// A name of an owner, which does not keep it.
pub(crate) struct Owner {
    name: Weak<dyn Any + Send + Sync>,
    unused: Mutex<Unused>,
    forms: Mutex<FormNumbers>,
}

impl Owner {
    /// The name of an owner that may still be in the making.
    pub(crate) fn new<T: Any + Send + Sync>(owner: Weak<T>) -> Arc<Self> {
        Arc::new(Self {
            name: owner,
            unused: Mutex::default(),
            forms: Mutex::default(),
        })
    }

    /// Of a module that no engine has: one that is only looked at.
    pub(crate) fn nobody() -> Arc<Self> {
        Self::new(Weak::<()>::new())
    }

    /// The owner, if it is one of that type and still exists.
    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.name.upgrade()?.downcast().ok()
    }

    /// The numbers of the forms of its modules.
    pub(super) fn forms(&self) -> MutexGuard<'_, FormNumbers> {
        self.forms.lock()
    }

    /// Memory of its modules to come.
    pub(super) fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock()
    }
}
