//! A loop whose head is among the bytes of a shadow: what must not be patched, executed by this
//! machine.

use super::*;

/// The sum of the numbers from the argument down to 1, in a loop behind 8 bytes of nops at +4.
const SUM: [u8; 22] = [
    0x31, 0xc0, // xor eax, eax
    0x89, 0xf9, // mov ecx, edi
    0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, // 8 bytes of nop
    0x01, 0xc8, // +12: add eax, ecx
    0x83, 0xe9, 0x01, // sub ecx, 1
    0x75, 0xf9, // jnz +12
    0xc3, // ret
    0xcc, 0xcc,
];

/// The function with a shadow of this length behind its second instruction.
fn written(reserved: u32) -> [Written; 1] {
    [Written {
        bytes: SUM.to_vec(),
        record: record(1).at(4),
        shape: CallShape::shadow(reserved),
    }]
}

fn register(lab: &Lab, text: &Text, functions: &[Written; 1]) -> Result<Module> {
    let code = lab.engine.adopt_with(text.adopted(functions), &text.shared())?;
    // SAFETY: what is told is true of the code that this test wrote, or refused.
    unsafe { lab.engine.register(code, |_| functions[0].shape) }
}

/// Were it registered, its invalidation would make the loop continue in the middle of a nop: a
/// fault, or a wrong sum.
#[test]
fn a_loop_in_a_shadow_is_never_patched() {
    let lab = Lab::new();
    for reserved in [10, 9, 11, 12] {
        let functions = written(reserved);
        let text = Text::new(&functions);
        let registered = register(&lab, &text, &functions);
        if let Ok(module) = &registered {
            lab.engine.invalidate(&module.function("f0").unwrap()).unwrap();
            assert_eq!(call(&module.sites().next().unwrap(), 5), 15, "{reserved}");
        }
        let start = text.addr(0).get();
        let Err(Error::Site(crate::site::Error::BranchIntoSite { site, from, to })) = registered else {
            panic!("{reserved}: {registered:?}");
        };
        assert_eq!((from.get() - start, to.get() - start), (17, 12), "{reserved}");
        assert_eq!(site.id.get(), 1);
    }
}

#[test]
fn a_loop_right_behind_a_shadow_goes_on() {
    let lab = Lab::new();
    let functions = written(8);
    let text = Text::new(&functions);
    let module = register(&lab, &text, &functions).unwrap();
    let site = module.sites().next().unwrap();
    assert_eq!(call(&site, 5), 15);
    lab.engine.invalidate(&module.function("f0").unwrap()).unwrap();
    assert_eq!((call(&site, 5), lab.deopts.load(Ordering::Relaxed)), (15, 1));
}
