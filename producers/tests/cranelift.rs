//! Code of Cranelift, placed by `cranelift-jit`: patchable calls, of which the compiled buffer tells, and
//! ordinary ones, which are found by their relocations.
//!
//! A call has five bytes on x86-64, at any alignment: some of them cross quadwords.

use std::time::Duration;

use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module as _, default_libcall_names};
use patchpoint::Engine;
use patchpoint::addr::{CodeAddr, Len};
use patchpoint::arch::{Arch, Convention, x86_64};
use patchpoint::image::Adoption;
use patchpoint::sequence::{Field, Sequence, arg};
use patchpoint::site::{Site, SiteSpec};
use patchpoint_producers::{CALLEE, Computes, Figures, Function, Sequences, Subject, Values, engine, lives};
use patchpoint_producers::{added, added_or_called, adding_or_calling};
use patchpoint_producers::{adopt, exercise, registered, unregister};

/// How many functions of each kind there are.
const KINDS: usize = 16;
/// What is added as often as the number of a function says, and taken away again: in seven bytes.
const STEP: i64 = 1000;

/// A function that was compiled, and the call in it.
struct Compiled {
    id: FuncId,
    name: String,
    len: u32,
    call: u32,
    is_patchable: bool,
}

/// A module with the functions, and how it compiles each.
struct Compiler {
    module: JITModule,
    builder: FunctionBuilderContext,
}

impl Compiler {
    fn new() -> Self {
        let builder = JITBuilder::new(default_libcall_names()).expect("this machine's target is there");
        Self {
            module: JITModule::new(builder),
            builder: FunctionBuilderContext::new(),
        }
    }

    /// Compiles a function of one word, whose body is made by `body`.
    fn define(
        &mut self,
        name: &str,
        convention: CallConv,
        has_result: bool,
        body: impl FnOnce(&mut JITModule, &mut FunctionBuilder<'_>, Value) -> Option<Value>,
    ) -> (FuncId, Context) {
        let mut context = self.module.make_context();
        let signature = &mut context.func.signature;
        signature.call_conv = convention;
        signature.params.push(AbiParam::new(types::I64));
        if has_result {
            signature.returns.push(AbiParam::new(types::I64));
        }
        // A name that stays in this module, so that calls of it are direct.
        let id = self
            .module
            .declare_function(name, Linkage::Local, signature)
            .expect("a new name");
        let mut builder = FunctionBuilder::new(&mut context.func, &mut self.builder);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let x = builder.block_params(block)[0];
        let result = body(&mut self.module, &mut builder, x);
        builder.ins().return_(result.as_slice());
        builder.seal_all_blocks();
        builder.finalize(self.module.target_config());
        self.module
            .define_function(id, &mut context)
            .expect("it is valid");
        (id, context)
    }

    /// The callee of patchable calls, which keeps all registers: adds to the word at an address.
    fn hook(&mut self) -> FuncId {
        let body = |_: &mut JITModule, builder: &mut FunctionBuilder<'_>, word| {
            let value = builder.ins().load(types::I64, MemFlagsData::trusted(), word, 0);
            let callee = builder.ins().iconst(types::I64, CALLEE as i64);
            let sum = builder.ins().iadd(value, callee);
            builder.ins().store(MemFlagsData::trusted(), sum, word, 0);
            None
        };
        self.define("hook", CallConv::PreserveAll, false, body).0
    }

    /// The callee of ordinary calls.
    fn helper(&mut self) -> FuncId {
        let body = |_: &mut JITModule, builder: &mut FunctionBuilder<'_>, x| {
            let callee = builder.ins().iconst(types::I64, CALLEE as i64);
            Some(builder.ins().iadd(x, callee))
        };
        self.define("helper", CallConv::SystemV, true, body).0
    }

    /// A function that calls one of those two.
    fn caller(&mut self, life: u32, number: usize, callee: FuncId, is_patchable: bool) -> Compiled {
        let kind = if is_patchable { "patchable" } else { "plain" };
        let name = format!("{kind}_{number}_{life}");
        let body = |module: &mut JITModule, builder: &mut FunctionBuilder<'_>, mut x| {
            let callee = module.declare_func_in_func(callee, builder.func);
            builder.func.dfg.ext_funcs[callee].patchable = is_patchable;
            for _ in 0..number {
                x = builder.ins().iadd_imm_s(x, STEP);
            }
            let mut sum = if is_patchable {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
                let slot = builder.create_sized_stack_slot(slot);
                builder.ins().stack_store(types::I64, x, slot, 0);
                let word = builder.ins().stack_addr(types::I64, slot, 0);
                builder.ins().call(callee, &[word]);
                builder.ins().stack_load(types::I64, types::I64, slot, 0)
            } else {
                let call = builder.ins().call(callee, &[x]);
                builder.inst_results(call)[0]
            };
            for _ in 0..number {
                sum = builder.ins().iadd_imm_s(sum, -STEP);
            }
            Some(sum)
        };
        let (id, context) = self.define(&name, CallConv::SystemV, true, body);
        let buffer = &context.compiled_code().expect("it was compiled").buffer;
        let call = if is_patchable {
            let site = buffer
                .patchable_call_sites()
                .next()
                .expect("its call is patchable");
            assert_eq!(site.len, 5);
            site.ret_addr - site.len
        } else {
            let calls = |reloc: Reloc| matches!(reloc, Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4);
            let mut relocs = buffer.relocs().iter();
            let distance = relocs.find(|reloc| calls(reloc.kind)).expect("it calls");
            distance.offset - 1
        };
        let len = buffer.total_size();
        Compiled {
            id,
            name,
            len,
            call,
            is_patchable,
        }
    }
}

/// A sequence for a patchable call: no register is free there, and none is needed.
fn adding_in_memory(version: u64) -> Sequence {
    Sequence::new().add_to_memory(u64::at(arg(0), 0), version)
}

/// What all of the functions compute.
const ORIGINAL: Computes = |x| x + CALLEE;

/// Compiles functions, and patches them for a while; others are compiled meanwhile. If they have run,
/// another thread executes them while they are adopted and registered.
fn live_once(
    (engine, compiler, callees): (&Engine, &mut Compiler, [FuncId; 2]),
    life: u32,
    has_run: bool,
    duration: Duration,
    figures: &mut Figures,
) {
    let [hook, helper] = callees;
    let mut compiled = Vec::new();
    for number in 0..KINDS {
        compiled.push(compiler.caller(life, number, hook, true));
        compiled.push(compiler.caller(life, number, helper, false));
    }
    compiler.module.finalize_definitions().expect("there is memory");
    let address = |function: &Compiled| compiler.module.get_finalized_function(function.id) as u64;
    let starts: Vec<u64> = compiled.iter().map(address).collect();
    // A call that begins in the second half of a quadword ends in the next.
    let crosses = |(function, start): (&Compiled, &u64)| (start + u64::from(function.call)) % 8 > 3;
    let crossing = compiled.iter().zip(&starts).filter(|call| crosses(*call)).count();
    assert!(crossing > 0 && crossing < compiled.len());

    // SAFETY: they were declared so.
    let function = |start: &u64| unsafe { std::mem::transmute::<u64, Function>(*start) };
    let register = || {
        let all = compiled.iter().zip(&starts);
        let adoption = all.fold(
            Adoption::without_stack_maps(Arch::X86_64),
            |adoption, (function, start)| {
                adoption.function(&function.name, CodeAddr::new(*start), Len::new(function.len))
            },
        );
        // SAFETY: the code is mapped for good; unless said, nobody has executed it.
        let code = unsafe { adopt(engine, adoption, has_run) };
        let sites = compiled.iter().zip(0_u64..).map(|(function, id)| {
            let site = SiteSpec::call(&function.name, function.call, 5).id(id);
            match function.is_patchable {
                // Of the convention `preserve_all`: nothing is free, but Cranelift keeps no flags from one
                // instruction of its IR to another.
                true => site.arg(x86_64::RDI).free_flags(),
                false => site.convention(Convention::C).args(1).returns(),
            }
        });
        // SAFETY: what is told is true of the code, as Cranelift has told it.
        unsafe { engine.registration(code).sites(sites).live().finish() }.expect("its sites are as told")
    };
    let all = starts.iter().map(|start| (function(start), ORIGINAL));
    let executed: Option<Vec<_>> = has_run.then(|| all.collect());
    let patched = registered(engine, executed.as_deref(), register);
    let subject = |site: Site| {
        let number = site.id().get() as usize;
        let (sequence, value): (Sequences, Values) = match compiled[number].is_patchable {
            true => (adding_in_memory, added),
            false => (adding_or_calling, added_or_called),
        };
        Subject {
            site,
            function: function(&starts[number]),
            original: Some(ORIGINAL),
            sequence,
            value,
        }
    };
    let subjects: Vec<Subject> = patched.sites().map(subject).collect();
    assert_eq!(subjects.len(), compiled.len());
    let mut others = 0;
    let beside = || {
        others += 1;
        let other = compiler.caller(life, KINDS + others, helper, false);
        compiler.module.finalize_definitions().expect("there is memory");
        let start = compiler.module.get_finalized_function(other.id) as u64;
        assert_eq!(function(&start)(7), ORIGINAL(7));
    };
    exercise(engine, &patched, &subjects, duration, figures, beside).expect("nothing is refused");
    drop(subjects);
    // SAFETY: the thread that has executed it is gone, and nobody else knows it.
    unsafe { unregister(engine, patched) }.expect("it is registered");
}

fn is_patched_live(producer: &'static str, has_run: bool) {
    let (engine, mut figures) = (engine(), Figures::of(producer));
    let mut compiler = Compiler::new();
    let callees = [compiler.hook(), compiler.helper()];
    let (lives, duration) = lives();
    for life in 0..lives {
        let all = (&engine, &mut compiler, callees);
        live_once(all, life, has_run, duration, &mut figures);
    }
    figures.finish();
}

#[test]
fn code_of_cranelift_is_patched_live() {
    is_patched_live("Cranelift (cranelift-jit)", false);
}

#[test]
fn code_of_cranelift_that_runs_is_patched_live() {
    is_patched_live("Cranelift (cranelift-jit), code that runs", true);
}
