//! Stubs, and the gates of the sites that jump to them.

use super::*;
use crate::{Error, check_stub};

const STUB: u64 = 0x5000;
/// The site's length.
const LEN: usize = 16;

fn jump(from: u64, to: u64) -> [u8; 5] {
    let [a, b, c, d] = (to.wrapping_sub(from + 5) as u32).to_le_bytes();
    [0xe9, a, b, c, d]
}

/// A site at an address whose jump, behind a nop, goes to the stub: mov r11, [rdi + 0x100], and
/// back; and a way to the target.
fn code(site: u64, stub: u64) -> (Vec<u8>, Vec<u8>) {
    let mut code = vec![0x90];
    code.extend(jump(site + 1, stub));
    code.extend([0x66, 0x90].repeat(5));
    let mut body = vec![0x81, 0x7f, 0x08, 0x34, 0x12, 0, 0];
    let [a, b, c, d] = ((TARGET - (stub + 13)) as u32).to_le_bytes();
    body.extend([0x0f, 0x85, a, b, c, d]);
    body.extend([0x4c, 0x8b, 0x9f, 0, 1, 0, 0]);
    body.extend(jump(stub + 20, site + LEN as u64));
    (code, body)
}

fn at(addr: u64) -> SiteContext<'static> {
    SiteContext {
        addr: CodeAddr::new(addr),
        ..site(LEN as u32)
    }
}

fn templates() -> (Template, GateTemplate) {
    let (code, body) = code(AT, STUB);
    let stub = Chunk {
        addr: CodeAddr::new(STUB),
        bytes: &body,
    };
    check(&at(AT), &code, &[stub], &declared()).unwrap();
    let gate = GateTemplate::of(&at(AT), &code, (1, 6), CodeAddr::new(STUB)).unwrap();
    (Template::of_stub(&at(AT), stub, &declared()).unwrap(), gate)
}

fn range(site: u64) -> CodeRange {
    CodeRange::new(CodeAddr::new(site), LEN as u64).unwrap()
}

fn stub_of(site: u64, at: u64) -> Place {
    Place::Stub {
        at: CodeAddr::new(at),
        site: range(site),
    }
}

fn contents(site: u64) -> [Content; 5] {
    let [a, b, c, d] = CONTENTS;
    [a, b, c, d, Content::Target(CodeAddr::new(site + LEN as u64))]
}

#[test]
fn a_stub_is_admitted_anywhere_with_its_targets_and_its_end() {
    let (template, _) = templates();
    assert_eq!(template.fields().len(), 5);
    let to_end = (0..5).map(|number| template.is_to_end(number));
    assert_eq!(to_end.collect::<Vec<_>>(), [false, false, false, false, true]);
    for (site, stub) in [(AT, STUB), (0x2003, 0x7770), (0x8000, 0x6000)] {
        let (_, body) = code(site, stub);
        assert!(template.admits(stub_of(site, stub), &body, &contents(site)));
        for place in [
            stub_of(site + 1, stub),
            stub_of(site, stub + 16),
            Place::Site(range(stub)),
        ] {
            assert!(!template.admits(place, &body, &contents(site)), "{place:?}");
        }
    }
}

/// What `check` says of a stub with its site, and `check_stub` without.
fn both(body: &[u8], at: &SiteContext<'_>, declared: &Declared) -> (bool, bool) {
    let (code, _) = code(at.addr.get(), STUB);
    let stub = Chunk {
        addr: CodeAddr::new(STUB),
        bytes: body,
    };
    let together = check(at, &code, &[stub], declared).is_ok();
    (together, check_stub(at, stub, declared).is_ok())
}

#[test]
fn a_stub_without_its_site_is_checked_by_the_same_rules() {
    let (site, declared) = (at(AT), declared());
    let (_, body) = code(AT, STUB);
    assert_eq!(both(&body, &site, &declared), (true, true));
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut other = body.clone();
            other[at] ^= 1 << bit;
            let (together, alone) = both(&other, &site, &declared);
            // The last jump may go into the site then.
            assert!(together == alone || at > 20 && together, "{at} {bit}");
        }
    }
    // What is not declared, and code that runs off its end, or is cut off.
    assert_eq!(both(&body, &site, &Declared::default()), (false, false));
    for len in 0..body.len() {
        assert_eq!(both(&body[..len], &site, &declared), (false, false), "{len}");
    }
}

#[test]
fn a_stub_that_needs_its_site_is_refused_without() {
    let (site, declared) = (at(AT), declared());
    let (_, mut body) = code(AT, STUB);
    body[20..].copy_from_slice(&jump(STUB + 20, AT + 6));
    assert_eq!(both(&body, &site, &declared), (true, false));
    let (_, body) = code(AT, STUB);
    let keeps = SiteContext {
        return_offsets: &[6],
        ..site
    };
    assert_eq!(both(&body, &keeps, &declared), (true, false));
    // A stub in its site, and one behind the end of all addresses.
    let inside = Chunk {
        addr: CodeAddr::new(AT + 15),
        bytes: &body,
    };
    assert!(matches!(
        check_stub(&site, inside, &declared),
        Err(Error::Overlap { .. })
    ));
    let last = at(u64::MAX - 3);
    let refused = check_stub(&last, inside, &declared);
    assert!(matches!(refused, Err(Error::Overlap { .. })));
}

#[test]
fn a_gate_does_nothing_but_jump() {
    let site = at(AT);
    let gate = |before: u8| {
        let mut code = vec![before];
        code.extend(jump(AT + 1, STUB));
        code.extend([0x66, 0x90].repeat(5));
        GateTemplate::of(&site, &code, (1, 6), CodeAddr::new(STUB))
    };
    let (nop, int3) = (gate(0x90), gate(0xcc));
    assert!(nop.is_some() && int3.is_none());
    let (first, _) = code(AT, STUB);
    let nop = nop.unwrap();
    assert!(nop.goes_to(range(AT), CodeAddr::new(STUB), &first));
    assert!(!nop.goes_to(range(AT), CodeAddr::new(STUB + 1), &first));
    assert!(!nop.goes_to(range(AT), CodeAddr::new(STUB), &first[..5]));
    for at in 0..6 {
        for bit in 0..8 {
            let mut damaged = first.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                !nop.goes_to(range(AT), CodeAddr::new(STUB), &damaged),
                "{at} {bit}"
            );
        }
    }
    // To the gate itself, into the site, and to its end.
    for to in [AT, AT + 3, AT + 8, AT + LEN as u64 - 1, AT + LEN as u64] {
        let mut code = first.clone();
        code[1..6].copy_from_slice(&jump(AT + 1, to));
        assert!(!nop.goes_to(range(AT), CodeAddr::new(to), &code), "{to:#x}");
    }
}

#[test]
fn no_byte_of_a_stub_may_differ_from_what_was_asked_for() {
    let (template, _) = templates();
    let (_, body) = code(AT, STUB);
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut damaged = body.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                !template.admits(stub_of(AT, STUB), &damaged, &contents(AT)),
                "{at} {bit}"
            );
        }
    }
}

/// Targets that the contract of another binds: the site's end, its bytes, the stub's own.
#[test]
fn a_target_is_outside_of_site_and_stub_and_not_the_end() {
    let (template, _) = templates();
    let site = AT + 0x100;
    for to in [site + LEN as u64, site, site + 5, STUB, STUB + 13] {
        let (_, mut body) = code(site, STUB);
        body[9..13].copy_from_slice(&(to.wrapping_sub(STUB + 13) as u32).to_le_bytes());
        let mut contents = contents(site);
        contents[2] = Content::Target(CodeAddr::new(to));
        assert!(!template.admits(stub_of(site, STUB), &body, &contents), "{to:#x}");
    }
}

#[test]
fn a_stub_that_branches_into_its_site_has_no_template() {
    let (code, mut body) = code(AT, STUB);
    body[20..].copy_from_slice(&jump(STUB + 20, AT + 6));
    let stub = Chunk {
        addr: CodeAddr::new(STUB),
        bytes: &body,
    };
    check(&at(AT), &code, &[stub], &declared()).unwrap();
    assert!(Template::of_stub(&at(AT), stub, &declared()).is_none());
}

#[test]
fn distances_of_stubs_stay_open() {
    let (mut template, _) = templates();
    let (_, body) = code(AT, STUB);
    template.keep(&body, |field| field.at == 3);
    let to_end = (0..template.fields().len()).map(|number| template.is_to_end(number));
    assert_eq!(to_end.collect::<Vec<_>>(), [false, false, true]);
    let [_, value, target, _, end] = contents(AT);
    assert!(template.admits(stub_of(AT, STUB), &body, &[value, target, end]));
}

/// Of more fields than there are bits in the set of those to the end.
#[test]
fn a_field_of_a_high_number_is_not_taken_for_another() {
    let (code, _) = code(AT, STUB);
    let mut body: Vec<u8> = [0x4c, 0x8b, 0x9f, 0, 1, 0, 0].repeat(40);
    body.extend(jump(STUB + 280, AT + LEN as u64));
    let stub = Chunk {
        addr: CodeAddr::new(STUB),
        bytes: &body,
    };
    check(&at(AT), &code, &[stub], &declared()).unwrap();
    assert!(Template::of_stub(&at(AT), stub, &declared()).is_none());
    let few = [
        &[0x4c, 0x8b, 0x9f, 0, 1, 0, 0].repeat(3)[..],
        &jump(STUB + 21, AT + LEN as u64),
    ]
    .concat();
    let stub = Chunk {
        addr: CodeAddr::new(STUB),
        bytes: &few,
    };
    let template = Template::of_stub(&at(AT), stub, &declared()).unwrap();
    let to_end = (0..100).filter(|number| template.is_to_end(*number));
    assert_eq!(to_end.collect::<Vec<_>>(), [3]);
}

/// The bytes of a site before its gate was closed.
fn open(site: u64) -> Vec<u8> {
    let (mut code, _) = code(site, STUB);
    code[1..6].copy_from_slice(&[0x0f, 0x1f, 0x44, 0x00, 0x00]);
    code
}

#[test]
fn a_gate_is_admitted_once_its_exchange_was_noted() {
    let (_, mut gate) = templates();
    let (stub, next) = (CodeAddr::new(STUB), CodeAddr::new(0x6660));
    let (nop, (first, _), (second, _)) = (open(AT), code(AT, STUB), code(AT, next.get()));
    for (old, new, to) in [(&nop, &first, stub), (&first, &second, next)] {
        assert!(!gate.admits(range(AT), to, (old, new)));
        gate.note(&at(AT), old, new).unwrap();
        assert!(gate.admits(range(AT), to, (old, new)));
        assert!(!gate.admits(range(AT), CodeAddr::new(0x7000), (old, new)));
    }
    // At other addresses too, where the jump lies in one quadword, and only there.
    for site in 0x2000..0x2008 {
        let (code, _) = code(site, STUB);
        let lies_in_one = (site + 1) / 8 == (site + 5) / 8;
        assert_eq!(gate.admits(range(site), stub, (&open(site), &code)), lies_in_one);
    }
}

/// On SystemZ, a site whose branch, behind a nop of 2 bytes, has that mask and goes to `to`.
fn branch(site: u64, mask: u8, to: u64) -> Vec<u8> {
    let halfwords = (to.wrapping_sub(site + 2) as i64 / 2) as u32;
    let [a, b, c, d] = halfwords.to_be_bytes();
    let code = [0x07, 0x00, 0xc0, mask << 4 | 4, a, b, c, d];
    [&code[..], &[0x07, 0x00].repeat(4)].concat()
}

#[test]
fn the_distance_of_a_gate_is_exchanged_on_systemz_and_nothing_else() {
    let at = |addr| SiteContext {
        arch: Arch::SystemZ,
        ..at(addr)
    };
    let stub = CodeAddr::new(STUB);
    let gate_of = || {
        let code = branch(AT, 15, STUB);
        GateTemplate::of(&at(AT), &code, (2, 8), stub).unwrap()
    };
    let new = |site| branch(site, 15, STUB);
    let armed = |site| branch(site, 15, site + 8);
    let mut gate = gate_of();
    assert!(!gate.admits(range(AT), stub, (&armed(AT), &new(AT))));
    gate.note(&at(AT), &armed(AT), &new(AT)).unwrap();
    assert!(gate.admits(range(AT), stub, (&armed(AT), &new(AT))));
    // At other addresses too, where the distance is an aligned word, and only there.
    for site in (0x2000..0x2010).step_by(2) {
        let allowed = check_exchange(&at(site), &armed(site), &new(site)).is_ok();
        assert_eq!(allowed, site % 4 == 0);
        let admitted = gate.admits(range(site), stub, (&armed(site), &new(site)));
        assert_eq!(admitted, allowed && site % 8 == 0, "{site:x}");
    }

    // A mask that changes says nothing of one that changes with the distance.
    let mut gate = gate_of();
    let never = |to| branch(AT, 0, to);
    gate.note(&at(AT), &never(STUB), &new(AT)).unwrap();
    let other = CodeAddr::new(0x6000);
    assert!(check_exchange(&at(AT), &never(STUB), &branch(AT, 15, other.get())).is_err());
    assert!(!gate.admits(range(AT), other, (&never(STUB), &branch(AT, 15, other.get()))));
}

#[test]
fn nothing_but_the_gate_may_change() {
    let (_, mut gate) = templates();
    let (old, (new, _)) = (open(AT), code(AT, STUB));
    let stub = CodeAddr::new(STUB);
    gate.note(&at(AT), &old, &new).unwrap();
    for at in 0..LEN {
        for bit in 0..8 {
            let (mut damaged, mut before) = (new.clone(), old.clone());
            damaged[at] ^= 1 << bit;
            before[at] ^= 1 << bit;
            assert!(!gate.admits(range(AT), stub, (&old, &damaged)), "{at} {bit}");
            assert!(!gate.admits(range(AT), stub, (&before, &new)), "{at} {bit}");
        }
    }
}

#[test]
fn an_exchange_that_is_refused_is_not_noted() {
    let (_, mut gate) = templates();
    let (mut old, (new, _)) = (open(AT), code(AT, STUB));
    // mov eax, 1 is no instruction that may be exchanged.
    old[1..6].copy_from_slice(&[0xb8, 1, 0, 0, 0]);
    let refused = gate.note(&at(AT), &old, &new);
    assert!(matches!(refused, Err(Error::Exchange { .. })));
    assert!(!gate.admits(range(AT), CodeAddr::new(STUB), (&old, &new)));
}

/// A site whose five bytes are all its gate, as `gate`, and four of the next instruction behind it.
fn five(gate: &[u8]) -> Vec<u8> {
    [gate, &[0x0f, 0x1f, 0x40, 0x00]].concat()
}

const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// A site of such, across a cache line; and its gate.
fn crossing() -> (SiteContext<'static>, GateTemplate) {
    let addr = CodeAddr::new(0x103e);
    let site = SiteContext { addr, ..site(9) };
    let stub = CodeAddr::new(STUB);
    let gate = GateTemplate::of(&site, &five(&jump(0x103e, STUB)), (0, 5), stub).unwrap();
    (site, gate)
}

/// Whether sites there may go from those bytes to a jump there.
fn rewrites(gate: &GateTemplate, (site, stub): (u64, u64), old: &[u8], new: &[u8]) -> bool {
    let range = CodeRange::new(CodeAddr::new(site), 9).unwrap();
    gate.admits_rewrite(range, CodeAddr::new(stub), (old, new))
}

#[test]
fn a_gate_is_rewritten_once_that_was_noted() {
    let (site, mut gate) = crossing();
    let jumps = |from, to| five(&jump(from, to));
    let there = (0x207e, 0x6000);
    let (first, next) = (jumps(0x103e, 0x7000), jumps(0x103e, STUB));
    assert!(!rewrites(&gate, there, &five(&NOP), &jumps(0x207e, 0x6000)));
    gate.note_rewrite(&site, &five(&NOP), &first).unwrap();
    assert!(rewrites(&gate, there, &five(&NOP), &jumps(0x207e, 0x6000)));
    assert!(!rewrites(
        &gate,
        there,
        &jumps(0x207e, 0x5000),
        &jumps(0x207e, 0x6000)
    ));
    gate.note_rewrite(&site, &first, &next).unwrap();
    assert!(rewrites(
        &gate,
        there,
        &jumps(0x207e, 0x5000),
        &jumps(0x207e, 0x6000)
    ));
    // Another place than was said, another instruction, and what is behind.
    assert!(!rewrites(&gate, there, &five(&NOP), &jumps(0x207e, 0x6001)));
    assert!(!rewrites(&gate, there, &five(&NOP), &five(&NOP)));
    let mut behind = jumps(0x207e, 0x6000);
    behind[8] = 1;
    assert!(!rewrites(&gate, there, &five(&NOP), &behind));
    let other = five(&[0xb8, 1, 2, 3, 4]);
    assert!(!rewrites(&gate, there, &other, &jumps(0x207e, 0x6000)));
}

#[test]
fn rewritings_that_are_refused_or_of_several_instructions_are_not_noted() {
    let (site, mut gate) = crossing();
    let to = five(&jump(0x103e, STUB));
    // A thread may be behind the first of the nops.
    let nops = five(&[0x66, 0x90, 0x66, 0x66, 0x90]);
    gate.note_rewrite(&site, &nops, &to).unwrap_err();
    assert!(!rewrites(&gate, (0x103e, STUB), &nops, &to));
    // It goes past them here; whether it does is not looked at again.
    let past = five(&[0xeb, 3, 0xcc, 0xcc, 0xcc]);
    gate.note_rewrite(&site, &past, &to).unwrap();
    assert!(!rewrites(&gate, (0x103e, STUB), &past, &to));
    // That a jump may become a nop says nothing of another jump.
    gate.note_rewrite(&site, &to, &five(&NOP)).unwrap();
    assert!(!rewrites(
        &gate,
        (0x103e, STUB),
        &five(&jump(0x103e, 0x7000)),
        &to
    ));
}
