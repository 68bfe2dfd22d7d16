//! An isolate: the objects, classes and globals that one thread's programs see.
//!
//! What code was compiled, or caches filled, for is told to the runtime where it changes: classes
//! and `scale`.

use std::cell::{Cell, OnceCell, RefCell};
use std::ptr;
use std::sync::Arc;

use patchpoint::addr::CodeAddr;
use patchpoint::publish::ThreadHandle;

use super::bytecode::{FunctionId, Method};
use super::heap::Heap;
use super::interpreter;
use super::object::{ClassId, NAMES, Name, Object, Shape};
use super::runtime::Runtime;
use super::value::Word;
use crate::host::{Caller, Host, SharedValue};

/// How many classes an isolate sees.
pub(crate) const CLASSES: usize = 6;
/// The first of those that all isolates share, and that never change.
pub(crate) const FIRST_SHARED: usize = 3;
/// The class of closures.
pub(crate) const CLOSURE: usize = 5;

/// A class.
#[derive(Debug)]
struct Class {
    id: ClassId,
    methods: [Cell<FunctionId>; 2],
    constants: [Cell<Word>; NAMES.len()],
}

impl Class {
    fn new(isolate: u32, index: usize) -> Self {
        // The numbers below `CLASSES` are those of the shared ones: isolate 0's.
        let owner = if index < FIRST_SHARED { isolate + 1 } else { 0 };
        let class = Self {
            id: ClassId(owner * CLASSES as u32 + index as u32),
            methods: [const { Cell::new(FunctionId::Identity) }; 2],
            constants: [const { Cell::new(Word::NIL) }; NAMES.len()],
        };
        class.reset(index);
        class
    }

    /// Makes it what it is at first. Says whether it was not.
    fn reset(&self, index: usize) -> bool {
        use FunctionId::*;
        let step = [Plus, Put, Grow, Plus, Area, Identity][index];
        let call = if index == CLOSURE { Adder } else { Identity };
        let mut changed = self.methods[0].replace(step) != step;
        changed |= self.methods[1].replace(call) != call;
        for (name, constant) in self.constants.iter().enumerate() {
            let value = match index != FIRST_SHARED {
                true => Word::integer((index + name) as i64),
                false => Word::NIL,
            };
            changed |= constant.replace(value) != value;
        }
        changed
    }
}

/// What compiled code knows as its isolate.
#[derive(Default)]
#[repr(C)]
struct Globals {
    scale: Cell<Word>,
}

thread_local! {
    /// The isolate whose compiled code this thread is in.
    static CURRENT: Cell<*const Isolate> = const { Cell::new(ptr::null()) };
}

/// See above.
pub(crate) struct Isolate {
    globals: SharedValue<Globals>,
    classes: [Class; CLASSES],
    objects: RefCell<Heap>,
    runtime: Arc<Runtime>,
    thread: OnceCell<ThreadHandle>,
    /// Threads that call compiled code: as many as calls have been inside each other, from a lookup
    /// or a handler.
    callers: RefCell<Vec<Caller>>,
}

impl Isolate {
    /// An isolate for this thread; the number is one that no other of the runtime has.
    pub(crate) fn new(runtime: &Arc<Runtime>, number: u32) -> Self {
        let thread = OnceCell::new();
        if let Some(tiers) = runtime.tiers() {
            thread.get_or_init(|| tiers.attach_thread());
        }
        let host = runtime.tiers().map_or(&Host::Here, |tiers| tiers.host());
        let globals = Globals {
            scale: Cell::new(Word::ONE),
        };
        Self {
            globals: host.place(globals).expect("there is memory"),
            classes: std::array::from_fn(|index| Class::new(number, index)),
            objects: RefCell::new(Heap::new(host)),
            runtime: Arc::clone(runtime),
            thread,
            callers: RefCell::default(),
        }
    }

    /// The isolate whose compiled code this thread is in: for what such code, or the way out of it,
    /// calls.
    pub(crate) fn current<'i>() -> &'i Self {
        let current = CURRENT.get();
        assert!(!current.is_null(), "this thread is in no compiled code");
        // SAFETY: `enter` has put it there and has not returned, as this is called from within.
        unsafe { &*current }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Between programs: nothing of one is left for the next. Compiled code is not on the stack.
    pub(crate) fn reset(&self) {
        self.set_scale(Word::ONE);
        for (index, class) in self.classes.iter().enumerate() {
            if class.reset(index) {
                self.changed(class.id);
            }
        }
        self.objects.borrow_mut().clear();
        if let (Some(thread), Some(tiers)) = (self.thread.get(), self.runtime.tiers()) {
            thread.quiescent();
            tiers.reclaim();
        }
    }

    // ---- objects ----

    pub(crate) fn create(&self, class: usize) -> Word {
        let fields = Vec::new();
        let class = self.classes[class].id;
        let shape = self.runtime.shapes.number(Shape { class, fields });
        let created = self.objects.borrow_mut().create(shape);
        created.expect("there is memory")
    }

    pub(crate) fn shape_of(&self, word: Word) -> Option<(u32, Arc<Shape>)> {
        let number = word.object()?.shape.get();
        Some((number, self.runtime.shapes.get(number)))
    }

    pub(crate) fn get(&self, word: Word, name: Name) -> Word {
        let (Some(object), Some((_, shape))) = (word.object(), self.shape_of(word)) else {
            return Word::NIL;
        };
        match shape.slot(name) {
            Some(slot) => object.slots[slot].get(),
            None => self.constant(shape.class, name),
        }
    }

    pub(crate) fn set(&self, word: Word, name: Name, value: Word) {
        let (Some(object), Some((_, shape))) = (word.object(), self.shape_of(word)) else {
            return;
        };
        let slot = shape.slot(name).unwrap_or_else(|| {
            object.shape.set(self.runtime.shapes.with(&shape, name));
            shape.fields.len()
        });
        object.slots[slot].set(value);
    }

    pub(crate) fn set_class(&self, word: Word, class: usize) {
        if let (Some(object), Some((_, shape))) = (word.object(), self.shape_of(word)) {
            let (class, fields) = (self.classes[class].id, shape.fields.clone());
            object
                .shape
                .set(self.runtime.shapes.number(Shape { class, fields }));
        }
    }

    // ---- classes ----

    fn class(&self, id: ClassId) -> &Class {
        &self.classes[id.0 as usize % CLASSES]
    }

    pub(crate) fn constant(&self, class: ClassId, name: Name) -> Word {
        self.class(class).constants[name as usize].get()
    }

    pub(crate) fn method(&self, class: ClassId, method: Method) -> FunctionId {
        self.class(class).methods[method as usize].get()
    }

    /// Replaces a method of a class of the isolate's own.
    pub(crate) fn set_method(&self, class: usize, method: Method, function: FunctionId) {
        let class = &self.classes[class];
        if class.methods[method as usize].replace(function) != function {
            self.changed(class.id);
        }
    }

    pub(crate) fn set_constant(&self, class: usize, name: Name, value: Word) {
        let class = &self.classes[class];
        if class.constants[name as usize].replace(value) != value {
            self.changed(class.id);
        }
    }

    fn changed(&self, class: ClassId) {
        if let Some(tiers) = self.runtime.tiers() {
            tiers.class_changed(class);
        }
    }

    // ---- globals ----

    pub(crate) fn scale(&self) -> Word {
        self.globals.scale.get()
    }

    pub(crate) fn set_scale(&self, value: Word) {
        let before = self.globals.scale.replace(value);
        if let Some(tiers) = self.runtime.tiers() {
            match (before == Word::ONE, value == Word::ONE) {
                (true, false) => tiers.scale_set(),
                (false, true) => tiers.scale_reset(),
                _ => {}
            }
        }
    }

    // ---- calls ----

    /// Calls a method: of an object, or of nothing, which has none.
    pub(crate) fn call(&self, receiver: Word, method: Method, arg: Word) -> Word {
        match self.shape_of(receiver) {
            Some((_, shape)) => self.invoke(self.method(shape.class, method), [receiver, arg]),
            None => Word::NIL,
        }
    }

    /// Calls a function, in its compiled version if it has one.
    pub(crate) fn invoke(&self, function: FunctionId, args: [Word; 2]) -> Word {
        let entry = self.runtime.tiers().and_then(|tiers| tiers.entry(function));
        match entry {
            Some(entry) => self.enter(entry.addr(), args),
            None => interpreter::call(self, function, args),
        }
    }

    /// Calls compiled code.
    fn enter(&self, at: CodeAddr, args: [Word; 2]) -> Word {
        let free = self.callers.borrow_mut().pop();
        let mut caller = free.unwrap_or_else(|| {
            let host = self.runtime.tiers().map_or(&Host::Here, |tiers| tiers.host());
            host.caller().expect("there are threads")
        });
        let outer = CURRENT.replace(self);
        // SAFETY: an entry is a function of an isolate and two words in the IR, and modules stay registered as long as
        // there are isolates.
        let result = unsafe { caller.call(at, [self.globals.addr(), args[0].0, args[1].0]) };
        CURRENT.set(outer);
        self.callers.borrow_mut().push(caller);
        Word(result.expect("whoever executes the code lives"))
    }

    // ---- results ----

    /// A value as results have it: the same in every run of a program.
    pub(crate) fn show(&self, word: Word) -> String {
        match (word.as_integer(), word.object()) {
            (Some(value), _) => value.to_string(),
            (_, Some(object)) => format!("#{}", object.number.get()),
            _ => "nil".to_owned(),
        }
    }

    /// All objects, and `scale`.
    pub(crate) fn dump(&self) -> Vec<String> {
        let object = |object: &Object| {
            let shape = self.runtime.shapes.get(object.shape.get());
            let slots = shape.fields.iter().zip(&object.slots);
            let fields: Vec<String> = slots
                .map(|(name, slot)| format!("{name:?}: {}", self.show(slot.get())))
                .collect();
            let class = shape.class.0 as usize % CLASSES;
            format!(
                "#{} of class {class} {{ {} }}",
                object.number.get(),
                fields.join(", ")
            )
        };
        let mut lines: Vec<String> = self.objects.borrow().objects().map(object).collect();
        lines.push(format!("scale {}", self.show(self.scale())));
        lines
    }
}

impl Drop for Isolate {
    fn drop(&mut self) {
        self.reset();
    }
}
