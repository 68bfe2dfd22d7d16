mod encodings;

use alloc::vec::Vec;

use patchpoint_isa::{Arch, nops};

use super::encode::Gpr;

fn gprs() -> impl Iterator<Item = Gpr> {
    (0..16).map(Gpr)
}

#[test]
fn nops_are_single_instructions_up_to_ten_bytes() {
    for len in 1..=64u32 {
        let mut bytes = Vec::new();
        nops::put(Arch::X86_64, len, &mut bytes);
        assert_eq!(bytes.len(), len as usize);
        let decoder = iced_x86::Decoder::new(64, &bytes, iced_x86::DecoderOptions::NONE);
        let nops: Vec<_> = decoder.into_iter().collect();
        assert!(nops.iter().all(|nop| nop.mnemonic() == iced_x86::Mnemonic::Nop));
        assert_eq!(nops.len(), len.div_ceil(10) as usize);
    }
}

#[test]
fn lengths_of_constants_are_told_right() {
    let values = [
        0,
        1,
        u64::from(u32::MAX),
        1 << 32,
        u64::MAX,
        i64::MIN as u64,
        0xffff_ffff_8000_0000,
        0xffff_ffff_7fff_ffff,
    ];
    for reg in gprs() {
        for value in values {
            let mut bytes = Vec::new();
            reg.put_constant(value, &mut bytes);
            assert_eq!(bytes.len(), reg.constant_len(value) as usize, "{value:#x}");
        }
    }
}
