//! A function of a registered module: a handle that keeps the module.

use core::fmt;
use core::ops::Range;

use super::functions::FunctionView;
use super::module::{Module, Site};
use crate::addr::{CodeAddr, Len};
use crate::site::{Error, Result};
use crate::stackmap::StackSize;

/// A function of a registered module.
#[derive(Clone)]
pub struct Function {
    pub(super) module: Module,
    pub(super) index: u32,
}

/// A handle is made for a function of its module.
const IS_ITS: &str = "a function's number is one of its module's";

impl Function {
    fn view(&self) -> FunctionView<'_> {
        self.module.0.parts.functions.get(self.index).expect(IS_ITS)
    }

    /// Where it is. Its name is not looked at, for which another cache line would be waited for.
    fn place(&self) -> (CodeAddr, Len) {
        self.module.0.parts.functions.place(self.index).expect(IS_ITS)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.view().name
    }

    /// What a pointer to it holds, to call it: its address, but on PowerPC ELFv1 that of its
    /// descriptor. It is good as long as the module is registered and its engine exists.
    ///
    /// # Errors
    /// [`Error::NotReleased`] before [`Module::release`].
    pub fn entry(&self) -> Result<CodeAddr> {
        // protection: entries-of-released-modules-only
        if !self.module.is_released() {
            return Err(Error::NotReleased {
                function: self.name().into(),
            });
        }
        Ok(self.pointer())
    }

    /// The function itself, to be called: `function.typed::<extern "C" fn(u64) -> u64>()?`.
    ///
    /// # Errors
    /// [`Error::NotReleased`] before [`Module::release`].
    ///
    /// # Safety
    /// `F` is a function pointer's type, and that of this function: arguments, result and convention. It is called only as long as
    /// the module is registered and its engine exists.
    #[allow(unsafe_code, reason = "what an address is the address of is a promise")]
    pub unsafe fn typed<F: Copy>(&self) -> Result<F> {
        const {
            assert!(
                size_of::<F>() == size_of::<usize>(),
                "a function pointer is as long as an address"
            )
        };
        let pointer: *const () = core::ptr::with_exposed_provenance(self.entry()?.get() as usize);
        // SAFETY: the caller promises that a pointer to this function is an F, and the lengths are equal.
        Ok(unsafe { core::mem::transmute_copy(&pointer) })
    }

    /// What a pointer to it holds, to look at and not to call.
    pub(crate) fn pointer(&self) -> CodeAddr {
        self.view().pointer
    }

    /// The address of its first byte, to look at and not to call.
    #[must_use]
    pub fn addr(&self) -> CodeAddr {
        self.place().0
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> Len {
        self.place().1
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len().get() == 0
    }

    /// The size of its frames, as its stack map tells; `None` if it is in none. The first question
    /// of this kind sorts the functions of the module's stack maps, and keeps 24 bytes for each.
    #[must_use]
    pub fn stack_size(&self) -> Option<StackSize> {
        let inner = &self.module.0;
        let sizes = inner
            .on_demand()
            .stack_sizes
            .get_or_init(|| super::audit::stack_sizes(&inner.parts));
        let found = sizes.binary_search_by_key(&self.addr(), |(addr, _)| *addr);
        let (_, size) = sizes.get(found.ok()?)?;
        Some(*size)
    }

    /// The module that it belongs to.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Its sites, in ascending address.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        self.site_numbers(0).map(|index| self.module.handle(index))
    }

    /// The numbers of its sites that have a [record](Site::is_recorded), by those that follow each other.
    /// They are found at once if the first of its sites has the number `guess`, as where one function is
    /// asked about after the other.
    pub(crate) fn recorded(&self, guess: u32) -> impl Iterator<Item = Range<u32>> + '_ {
        self.module.0.sites.recorded(self.site_numbers(guess))
    }

    fn site_numbers(&self, guess: u32) -> Range<u32> {
        let sites = &self.module.0.sites;
        let (start, len) = self.place();
        let first = match sites.are_before(guess, start) {
            true => guess,
            false => sites.before(start),
        };
        let end = start.plus(len);
        first..end.map_or(sites.len() as u32, |end| sites.before_from(first, end))
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name(), self.addr())
    }
}
