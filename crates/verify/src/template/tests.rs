mod many;
mod words;

use llvm_stackmaps::Constants;
use llvm_stackmaps::addr::RecordId;
use patchpoint_isa::{Arch, CallShape, DeclaredTarget, OnReturn};

use super::*;
use crate::check;

const AT: u64 = 0x1000;
const TARGET: u64 = 0x9000;

fn site(reserved: u32) -> SiteContext<'static> {
    SiteContext {
        arch: Arch::X86_64,
        id: RecordId::new(7),
        function: Some("f"),
        offset: Default::default(),
        addr: CodeAddr::new(AT),
        shape: CallShape::entry(reserved),
        record: None,
        constants: Constants::NONE,
        return_offsets: &[],
        trust_live_outs: false,
    }
}

fn declared() -> Declared {
    Declared {
        targets: vec![DeclaredTarget {
            addr: CodeAddr::new(TARGET),
            on_return: OnReturn::Never,
        }],
        ..Declared::default()
    }
}

fn template(code: &[u8]) -> Option<Template> {
    let site = site(code.len() as u32);
    check(&site, code, &[], &declared()).unwrap();
    Template::of(&site, code, &declared())
}

fn opened(code: &[u8]) -> Vec<(usize, usize)> {
    let template = template(code).unwrap();
    template
        .fields()
        .iter()
        .map(|field| (field.at, field.len))
        .collect()
}

fn jne(at: u64) -> [u8; 6] {
    let [a, b, c, d] = ((TARGET - (at + 6)) as u32).to_le_bytes();
    [0x0f, 0x85, a, b, c, d]
}

/// cmp dword [rdi + 8], 0x1234; jne TARGET; mov r11, [rdi + 0x100].
fn hit() -> Vec<u8> {
    let mut code = vec![0x81, 0x7f, 0x08, 0x34, 0x12, 0, 0];
    code.extend(jne(AT + 7));
    code.extend([0x4c, 0x8b, 0x9f, 0, 1, 0, 0]);
    code
}

const CONTENTS: [Content; 4] = [
    Content::Value(8),
    Content::Value(0x1234),
    Content::Target(CodeAddr::new(TARGET)),
    Content::Value(0x100),
];

fn site_of(len: usize) -> Place {
    Place::Site(CodeRange::new(CodeAddr::new(AT), len as u64).unwrap())
}

#[test]
fn displacements_immediates_and_distances_are_open() {
    assert_eq!(opened(&hit()), [(2, 1), (3, 4), (9, 4), (16, 4)]);
}

#[test]
fn what_was_checked_is_admitted_with_the_values_that_were_asked_for() {
    let (code, template) = (hit(), template(&hit()).unwrap());
    assert!(template.admits(site_of(code.len()), &code, &CONTENTS));
    let mut other = code.clone();
    other[2] = 0x18;
    let mut contents = CONTENTS;
    contents[0] = Content::Value(0x18);
    assert!(template.admits(site_of(code.len()), &other, &contents));
    assert!(!template.admits(site_of(code.len()), &other, &CONTENTS));
}

#[test]
fn no_byte_may_differ_from_what_was_checked_and_asked_for() {
    let (code, template) = (hit(), template(&hit()).unwrap());
    for at in 0..code.len() {
        for bit in 0..8 {
            let mut damaged = code.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                !template.admits(site_of(code.len()), &damaged, &CONTENTS),
                "{at} {bit}"
            );
        }
    }
    assert!(!template.admits(site_of(code.len() - 1), &code[1..], &CONTENTS));
    assert!(!template.admits(site_of(code.len()), &code, &CONTENTS[..3]));
}

/// Of lengths that are compared by their ends, and of others.
#[test]
fn every_closed_bit_is_compared_of_any_length() {
    for len in 1..=70 {
        let code: Vec<u8> = (1..=len).collect();
        let mut template = Template {
            code: code.clone().into(),
            closed: code.iter().map(|_| 0xff).collect(),
            fields: SmallVec::new(),
            are_whole: true,
            to_end: 0,
        };
        let place = site_of(code.len());
        assert!(template.admits(place, &code, &[]));
        for at in 0..code.len() {
            for bit in 0..8 {
                let mut damaged = code.clone();
                damaged[at] ^= 1 << bit;
                assert!(!template.admits(place, &damaged, &[]), "{at} {bit} of {len}");
                template.closed[at] ^= 1 << bit;
                assert!(template.admits(place, &damaged, &[]), "{at} {bit} of {len}");
                template.closed[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_target_is_outside_of_the_site() {
    let (mut code, template) = (hit(), template(&hit()).unwrap());
    let end = AT + code.len() as u64;
    for to in [AT, AT + 5, end - 1, end, end + 1] {
        let distance = to.wrapping_sub(AT + 13) as u32;
        code[9..13].copy_from_slice(&distance.to_le_bytes());
        let mut contents = CONTENTS;
        contents[2] = Content::Target(CodeAddr::new(to));
        assert_eq!(
            template.admits(site_of(code.len()), &code, &contents),
            to == end + 1,
            "{to:#x}"
        );
    }
}

#[test]
fn the_stack_is_closed() {
    // sub rsp, 0x28; add rsp, 0x28; mov r11, [rsp + 0x18].
    assert_eq!(
        opened(&[
            0x48, 0x83, 0xec, 0x28, 0x48, 0x83, 0xc4, 0x28, 0x4c, 0x8b, 0x5c, 0x24, 0x18
        ]),
        []
    );
}

#[test]
fn an_immediate_that_says_what_is_done_is_closed() {
    // shl r11, 3; and r11, 3.
    assert_eq!(
        opened(&[0x49, 0xc1, 0xe3, 0x03, 0x49, 0x83, 0xe3, 0x03]),
        [(7, 1)]
    );
}

#[test]
fn branches_inside_are_closed() {
    // jmp +0; nop.
    assert_eq!(opened(&[0xe9, 0, 0, 0, 0, 0x90]), []);
}

#[test]
fn what_depends_on_the_address_or_on_a_constant_has_no_template() {
    // mov r11, [rip + 0].
    assert!(template(&[0x4c, 0x8b, 0x1d, 0, 0, 0, 0]).is_none());
    // mov r11, TARGET; jmp r11.
    let far = [0x49, 0xbb, 0, 0x90, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3];
    assert!(template(&far).is_none());
}

#[test]
fn fields_that_are_not_kept_are_closed() {
    let (code, mut template) = (hit(), template(&hit()).unwrap());
    template.keep(&code, |field| field.at != 3);
    let kept = [CONTENTS[0], CONTENTS[2], CONTENTS[3]];
    assert!(template.admits(site_of(code.len()), &code, &kept));
    let mut other = code.clone();
    other[3] ^= 1;
    assert!(!template.admits(site_of(code.len()), &other, &kept));
}

mod stubs;
