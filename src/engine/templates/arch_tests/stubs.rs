//! Stubs and gates of every architecture, filled and checked on any host.
//!
//! Problem: a stub is at another distance from its site and its targets each time, and the site
//! around its gate was checked at another site. Approach: what is filled, and the site that goes there, are
//! checked anew by the rules of which the template is a proof; the stub is that which is assembled,
//! where that has no shorter branch.

use super::*;
use crate::arch::DeclaredTarget;
use crate::sequence::{Stub, assemble_stub, assemble_stub_template};
use patchpoint_asm::backend_of;

/// The patchable jump of a site.
fn jump(site: &SiteContext<'_>) -> PatchableJump {
    let len = site.shape.reserved();
    let jump = backend_of(site.arch).plan_patchable_jump(site.addr, len);
    jump.expect("the site is long and aligned")
}

/// The bytes of a site that goes there; that goes nowhere yet.
fn armed(site: &SiteContext<'_>, to: Option<CodeAddr>) -> Vec<u8> {
    let (backend, patchable_jump) = (backend_of(site.arch), jump(site));
    let bytes = match to {
        Some(to) => backend.jump(patchable_jump, to).expect("the stub is in reach"),
        None => backend.nop(patchable_jump),
    };
    patchable_jump.armed(site.arch, site.shape.reserved(), bytes)
}

fn check(site: &SiteContext<'_>, at: CodeAddr, stub: &[u8], declared: &Declared) -> Result<()> {
    let chunk = Chunk {
        addr: at,
        bytes: stub,
    };
    verify::check(site, &armed(site, Some(at)), &[chunk], declared)?;
    Ok(())
}

/// The template of a sequence that the checker accepts in a stub there.
fn made(
    site: &SiteContext<'_>,
    at: CodeAddr,
    environment: &Environment,
    sequence: &Sequence,
) -> Option<Template> {
    let made = assemble_stub_template(sequence, site, environment, |_| Ok::<_, crate::Error>(at));
    let Stub {
        code,
        declared,
        holes,
        ..
    } = made.ok()?;
    check(site, at, &code.bytes, &declared).ok()?;
    let stub = Chunk {
        addr: at,
        bytes: &code.bytes,
    };
    let laid_out = LaidOut {
        code: stub.bytes,
        holes: &*holes?,
        declared: &declared,
        returns: &[],
        used: Len::default(),
    };
    let checked = verify::Template::of_stub(site, stub, &declared)?;
    Template::of((0, sequence), checked, &laid_out)
}

struct Tally {
    made: usize,
    /// Filled, and refused.
    filled: [usize; 2],
    /// Of the filled, those that are assembled with shorter branches.
    longer: usize,
}

fn try_all(arch: Arch) -> Tally {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut tally = Tally {
        made: 0,
        filled: [0; 2],
        longer: 0,
    };
    // All in reach of a patchable jump, and of each other.
    let place = |numbers: &mut Numbers| {
        let distance = [0x800, 0x7000, 0x2_0000, 0x6_0000][numbers.below(4) as usize];
        CodeAddr::new(SITE + distance + 8 * numbers.below(0x400))
    };
    let environment = |numbers: &mut Numbers| {
        let distance = [0x7_0000, 0x9_0000, 0x80_0000][numbers.below(3) as usize];
        let miss = SITE + distance + 4 * numbers.below(0x400);
        Environment {
            miss: Some(CodeAddr::new(miss)),
            deopt: Some(CodeAddr::new(miss + 0x200)),
        }
    };
    for round in 0..1_000 {
        let site = site(arch, round % 2 == 0);
        let kind = numbers.below(1 << 20);
        let values = [numbers.number(), numbers.number()];
        let disps = [numbers.disp(), numbers.disp()];
        let (first, env, at) = (
            sequence(kind, values, disps),
            environment(&mut numbers),
            place(&mut numbers),
        );
        let Some(template) = made(&site, at, &env, &first) else {
            continue;
        };
        tally.made += 1;
        let range = |site: &SiteContext<'_>| in_place(site).site();
        let stub_of = |site: &SiteContext<'_>, at| Place::Stub {
            at,
            site: range(site),
        };
        let own = filled(&template, stub_of(&site, at), &env, &first);
        let own = own.expect("a stub is filled where it was made");
        if round % 16 == 0 {
            nothing_else_is_admitted(&template, stub_of(&site, at), own);
        }
        for _ in 0..8 {
            let values = values.map(|value| numbers.near(value));
            let disps = disps.map(|disp| numbers.near(disp as u64) as i32);
            let mut other = sequence(kind, values, disps);
            let (env, at) = (environment(&mut numbers), place(&mut numbers));
            let moved = SiteContext {
                addr: CodeAddr::new(SITE + 8 * numbers.below(0x40)),
                ..site
            };
            if other.outline().words() != first.outline().words() {
                other = first.clone();
            }
            let Some((code, _)) = filled(&template, stub_of(&moved, at), &env, &other) else {
                tally.filled[1] += 1;
                continue;
            };
            let fresh = assemble_stub(&other, &moved, &env, |_| Ok::<_, crate::Error>(at)).unwrap();
            if let Err(refused) = check(&moved, at, &code, &fresh.declared) {
                panic!("{arch} {other:?} of {first:?}: {refused}");
            }
            let bytes = &*fresh.code.bytes;
            match code.len() > bytes.len() {
                true => tally.longer += 1,
                false => assert_eq!(&code[..], bytes, "{arch} {other:?} of {first:?}"),
            }
            tally.filled[0] += 1;
        }
    }
    let Tally { made, filled, longer } = &tally;
    std::println!("{arch}: made {made}, filled {filled:?}, with longer branches {longer}");
    tally
}

#[test]
fn stubs_are_filled_on_every_architecture() {
    for arch in ARCHS {
        let Tally { made, filled, longer } = try_all(arch);
        assert!(made > 400 && filled[0] > 1_500, "{arch} {made} {filled:?}");
        assert!(longer < filled[0] / 2, "{arch} {longer} {filled:?}");
    }
}

/// A gate is admitted exactly where its site would be checked and exchanged.
fn gates_are_closed(arch: Arch) {
    let site = site(arch, true);
    let (jump, first) = (jump(&site), CodeAddr::new(SITE + 0x1000));
    let code = armed(&site, Some(first));
    let targets = |to| Declared {
        targets: vec![DeclaredTarget {
            addr: to,
            on_return: OnReturn::Never,
        }],
        ..Declared::default()
    };
    verify::check(&site, &code, &[], &targets(first)).unwrap();
    let bounds = (jump.offset.as_usize(), jump.end().as_usize());
    let mut gate = GateTemplate::of(&site, &code, bounds, first).unwrap();
    let (nops, range) = (armed(&site, None), in_place(&site).site());
    let second = CodeAddr::new(SITE + 0x2340);
    let other = armed(&site, Some(second));
    for (old, new, to) in [(&nops, &code, first), (&code, &other, second)] {
        // SystemZ's nop is a jump: what is allowed of one is of another.
        let is_known = arch == Arch::SystemZ && to == second;
        assert_eq!(gate.admits(range, to, (old, new)), is_known, "{arch}");
        gate.note(&site, old, new).unwrap();
        assert!(gate.admits(range, to, (old, new)), "{arch}");
        for bit in 0..8 * new.len() {
            let (mut after, mut before) = (new.clone(), old.clone());
            after[bit / 8] ^= 1 << (bit % 8);
            before[bit / 8] ^= 1 << (bit % 8);
            assert!(!gate.admits(range, to, (old, &after)), "{arch} {bit}");
            // A jump that went to another stub is one, too.
            if gate.admits(range, to, (&before, new)) {
                verify::check_exchange(&site, &before, new).unwrap();
            }
        }
    }
    for by in 0..0x40 {
        let moved = SiteContext {
            addr: CodeAddr::new(SITE + by),
            ..site
        };
        let Some(addr) = moved.addr.plus(jump.offset) else {
            unreachable!()
        };
        let moved_jump = PatchableJump { addr, ..jump };
        for to in [SITE + 0x1000, SITE - 0x5_0000, SITE + 0xf_0000].map(CodeAddr::new) {
            let Some(bytes) = backend_of(arch).jump(moved_jump, to) else {
                continue;
            };
            let new = jump.armed(arch, moved.shape.reserved(), bytes);
            let admits = gate.admits(in_place(&moved).site(), to, (&nops, &new));
            let is_checked = verify::check(&moved, &new, &[], &targets(to)).is_ok()
                && verify::check_exchange(&moved, &nops, &new).is_ok();
            assert!(is_checked || !admits, "{arch} {by} {to:?}");
            // Where jumps lie is a matter of the architecture's unit; of x86-64's, which bytes differ.
            assert!(admits || by % 8 != 0, "{arch} {by} {to:?}");
            assert!(!gate.admits(
                in_place(&moved).site(),
                first.plus(Len::new(8)).unwrap(),
                (&nops, &new)
            ));
        }
    }
}

#[test]
fn gates_are_closed_where_their_exchange_is_allowed() {
    ARCHS.into_iter().for_each(gates_are_closed);
}
