//! Links that wait: several of them on one thread, and what becomes of their memory.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::merge::{addresses, at, needed};
use super::*;
use crate::error::{Error, Result};

/// Memory and symbols that come when they are told to.
#[derive(Default)]
struct Later {
    /// How many more allocations are granted.
    memory: Cell<u64>,
    finals: Cell<bool>,
    known: RefCell<BTreeMap<String, u64>>,
    allocated: Cell<u64>,
    abandoned: RefCell<Vec<u64>>,
    deallocated: RefCell<Vec<u64>>,
    asked: RefCell<Vec<String>>,
}

impl MemoryManager for Later {
    type Memory = u64;
    type Finalized = u64;
    type Error = Error;

    async fn allocate(&self, _: &[SegmentRequest; 3], _: ImageReach) -> Result<(u64, SegmentAddrs)> {
        poll_fn(|_| match self.memory.get() {
            0 => Poll::Pending,
            left => {
                self.memory.set(left - 1);
                Poll::Ready(())
            }
        })
        .await;
        let number = self.allocated.replace(self.allocated.get() + 1);
        let page = |index: u64| CodeAddr::new(0x10_0000 * (number + 1) + 0x1000 * index);
        let addrs = SegmentAddrs {
            code: page(0),
            read_only: page(1),
            data: page(2),
        };
        Ok((number, addrs))
    }

    async fn finalize(&self, memory: u64, _: &LinkedImage) -> Result<u64> {
        let ready = |_: &mut Context<'_>| match self.finals.get() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        poll_fn(ready).await;
        Ok(memory)
    }

    fn abandon(&self, memory: u64) {
        self.abandoned.borrow_mut().push(memory);
    }

    fn deallocate(&self, finalized: u64) -> Result<()> {
        self.deallocated.borrow_mut().push(finalized);
        Ok(())
    }
}

impl SymbolLookup for Later {
    type Error = Error;

    async fn lookup(&self, names: &[&str]) -> Result<Vec<Option<CodeAddr>>> {
        self.asked
            .borrow_mut()
            .extend(names.iter().map(|name| (*name).to_string()));
        poll_fn(|_| {
            let known = self.known.borrow();
            let found: Option<Vec<_>> = names.iter().map(|name| known.get(*name).copied()).collect();
            match found {
                None => Poll::Pending,
                Some(found) => {
                    let refused = found.contains(&u64::MAX);
                    Poll::Ready(if refused {
                        Err(Error::RootUndefined {
                            symbol: "told".into(),
                        })
                    } else {
                        Ok(found.into_iter().map(|addr| Some(CodeAddr::new(addr))).collect())
                    })
                }
            }
        })
        .await
    }
}

type InFlight = Pin<alloc::boxed::Box<dyn Future<Output = Result<(u64, LinkedImage)>>>>;

/// A link of an object that needs one symbol.
fn start(later: &Rc<Later>, needs: &'static str) -> InFlight {
    let later = Rc::clone(later);
    alloc::boxed::Box::pin(async move {
        let bytes = addresses(&[at("it", 0, 2), needed(needs)]);
        let graph = Graph::new("it.o", Object::parse(&bytes)?);
        let linked = link(graph, &mut Passes::new(), &*later, &*later).await?;
        Ok((linked.memory, linked.image))
    })
}

fn poll(link: &mut InFlight) -> Poll<Result<(u64, LinkedImage)>> {
    link.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn needed_addr(image: &LinkedImage) -> u64 {
    u64::from_le_bytes(image.segments[0].bytes[8..16].try_into().unwrap())
}

/// Three links on one thread, each at another point; they end in another order than they began in.
#[test]
fn links_wait_without_a_thread_each() {
    let later = Rc::new(Later::default());
    let mut links = ["x", "y", "z"].map(|name| start(&later, name));
    assert!(links.iter_mut().all(|link| poll(link).is_pending()));
    assert_eq!(later.allocated.get(), 0);
    later.memory.set(2);
    assert!(links.iter_mut().all(|link| poll(link).is_pending()));
    assert_eq!((later.allocated.get(), later.asked.borrow().len()), (2, 2));
    later.memory.set(1);
    assert!(links.iter_mut().all(|link| poll(link).is_pending()));
    assert_eq!(*later.asked.borrow(), ["x", "y", "z"]);

    later.finals.set(true);
    let mut ended = Vec::new();
    for (name, addr) in [("z", 0x33), ("x", 0x11), ("y", 0x22)] {
        later.known.borrow_mut().insert(name.into(), addr);
        for (index, link) in links.iter_mut().enumerate() {
            if ended.iter().any(|(other, _, _)| *other == index) {
                continue;
            }
            if let Poll::Ready(result) = poll(link) {
                let (memory, image) = result.unwrap();
                ended.push((index, memory, needed_addr(&image)));
            }
        }
    }
    assert_eq!(ended, [(2, 2, 0x33), (0, 0, 0x11), (1, 1, 0x22)]);
    assert!(later.abandoned.borrow().is_empty());
    later.deallocate(2).unwrap();
    assert_eq!(*later.deallocated.borrow(), [2]);
}

#[test]
fn memory_of_a_link_that_fails_or_is_dropped_is_abandoned() {
    let later = Rc::new(Later::default());
    later.memory.set(3);
    later.known.borrow_mut().insert("refused".into(), u64::MAX);
    let mut failing = start(&later, "refused");
    let Poll::Ready(Err(error)) = poll(&mut failing) else {
        panic!()
    };
    assert_eq!(
        error,
        Error::RootUndefined {
            symbol: "told".into()
        }
    );
    assert_eq!(*later.abandoned.borrow(), [0]);

    let mut dropped = start(&later, "never");
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(*later.abandoned.borrow(), [0, 1]);

    // Once it is finalized it is the manager's.
    later.known.borrow_mut().insert("good".into(), 1);
    let mut waiting = start(&later, "good");
    assert!(poll(&mut waiting).is_pending());
    later.finals.set(true);
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))));
    assert_eq!(*later.abandoned.borrow(), [0, 1]);

    // Before memory is there, there is none to abandon.
    drop(start(&later, "never"));
    let mut none = start(&later, "never");
    assert!(poll(&mut none).is_pending());
    drop(none);
    assert_eq!(later.abandoned.borrow().len(), 2);
}

#[test]
fn who_does_not_wait_is_told() {
    let later = Rc::new(Later::default());
    let error = at_once(start(&later, "x")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the link waits for memory or symbols: poll it until it is ready"
    );
}

/// An answer that is too short leaves symbols without an address.
#[test]
fn a_short_answer_is_an_unknown_symbol() {
    struct Short;
    impl SymbolLookup for Short {
        type Error = Error;

        async fn lookup(&self, _: &[&str]) -> Result<Vec<Option<CodeAddr>>> {
            Ok(Vec::new())
        }
    }
    let later = Later::default();
    later.memory.set(1);
    let bytes = addresses(&[needed("x")]);
    let graph = Graph::new("it.o", Object::parse(&bytes).unwrap());
    let error = at_once(link(graph, &mut Passes::new(), &later, &Short)).unwrap_err();
    assert!(matches!(error, Error::SymbolsUnresolved { .. }), "{error}");
    assert_eq!(*later.abandoned.borrow(), [0]);
}
