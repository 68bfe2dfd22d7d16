//! Codes of many sites, each with one branch.

use super::*;

/// So many are looked at together.
const COUNT: usize = 5;

/// A jump, and nops up to a length.
fn jump(len: usize, (at, to): (u64, u64)) -> Vec<u8> {
    let [a, b, c, d] = (to.wrapping_sub(at + 5) as u32).to_le_bytes();
    let mut code = vec![0xe9, a, b, c, d];
    code.resize(len, 0x90);
    code
}

/// Where the site of that number is, and where its jump goes to.
fn place(len: usize, number: usize) -> (CodeRange, CodeAddr) {
    let (at, to) = (AT + 80 * number as u64, TARGET + 16 * number as u64);
    let site = CodeRange::new(CodeAddr::new(at), len as u64).unwrap();
    (site, CodeAddr::new(to))
}

fn codes(len: usize) -> Vec<u8> {
    let of = |(site, to): (CodeRange, CodeAddr)| jump(len, (site.start().get(), to.get()));
    (0..COUNT).flat_map(|number| of(place(len, number))).collect()
}

fn refused(template: &Template, len: usize, codes: &[u8]) -> Option<usize> {
    let places = (0..COUNT).map(|number| place(len, number));
    template.lone_branch().unwrap().first_refused(codes, places)
}

/// As each of them alone, of lengths that are compared by their ends, and of others.
#[test]
fn the_first_of_many_that_differs_is_refused() {
    for len in [5, 8, 9, 16, 17, 24, 32, 33, 70] {
        let template = template(&jump(len, (AT, TARGET))).unwrap();
        let codes = codes(len);
        assert_eq!(refused(&template, len, &codes), None);
        for bit in 0..codes.len() * 8 {
            let mut damaged = codes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let number = bit / 8 / len;
            assert_eq!(refused(&template, len, &damaged), Some(number), "{bit} of {len}");
            if number + 1 < COUNT {
                *damaged.last_mut().unwrap() ^= 1;
                assert_eq!(refused(&template, len, &damaged), Some(number), "{bit} of {len}");
            }
            let own = &damaged[number * len..(number + 1) * len];
            let (site, to) = place(len, number);
            let branch = template.lone_branch().unwrap();
            assert!(!branch.admits(Place::Site(site), own, to));
        }
    }
}

#[test]
fn what_is_cut_off_or_has_no_place_is_refused() {
    let len = 32;
    let template = template(&jump(len, (AT, TARGET))).unwrap();
    let codes = codes(len);
    assert_eq!(refused(&template, len, &[]), None);
    for cut_off in 1..len {
        let all = &codes[..codes.len() - cut_off];
        assert_eq!(refused(&template, len, all), Some(COUNT - 1));
    }
    for places in 0..COUNT {
        let branch = template.lone_branch().unwrap();
        let some = (0..places).map(|number| place(len, number));
        assert_eq!(branch.first_refused(&codes, some), Some(places));
    }
}

/// A site's branch leaves it, and not for its end.
#[test]
fn a_branch_of_many_into_its_own_site_is_refused() {
    let len = 24;
    let template = template(&jump(len, (AT, TARGET))).unwrap();
    for to in [AT, AT + 5, AT + 23, AT + 24, AT + 25] {
        let (site, _) = place(len, 0);
        let places = [(site, CodeAddr::new(to))].into_iter();
        let branch = template.lone_branch().unwrap();
        let refused = branch.first_refused(&jump(len, (AT, to)), places);
        assert_eq!(refused, (to != AT + 25).then_some(0), "{to:#x}");
    }
}
