//! Names as the source has them, of C++ and of Rust, wherever they are in what is printed: in
//! disassembly and messages, too.

use cpp_demangle::Symbol;
use serde_json::Value;

/// The name in the source, of a symbol that a compiler of C++ or Rust made.
pub(crate) fn name(symbol: &str) -> Option<String> {
    // Mach-O puts one sign more before a symbol.
    let bare = symbol
        .strip_prefix('_')
        .filter(|rest| rest.starts_with('_'))
        .unwrap_or(symbol);
    if bare.starts_with("_R") || is_old_rust(bare) {
        let demangled = rustc_demangle::try_demangle(bare).ok()?;
        return Some(format!("{demangled:#}"));
    }
    if !bare.starts_with("_Z") {
        return None;
    }
    Symbol::new(bare).ok()?.demangle().ok()
}

/// Before its own scheme Rust used that of C++, with a hash of 16 digits at the end.
fn is_old_rust(symbol: &str) -> bool {
    let hash = symbol.strip_suffix('E').and_then(|rest| rest.rsplit_once("17h"));
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    symbol.starts_with("_ZN") && hash.is_some_and(|(_, hash)| is_hash(hash))
}

/// The text with all symbols in it replaced.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        // What sets a colour ends with a letter, which is no part of the name behind it.
        if let Some((escape, after)) = rest.strip_prefix('\x1b').and_then(|after| after.split_once('m')) {
            out.push('\x1b');
            out.push_str(escape);
            out.push('m');
            rest = after;
            continue;
        }
        let is_word = rest.starts_with(in_symbol);
        let end = rest.find(|c| in_symbol(c) != is_word || c == '\x1b');
        let (part, after) = rest.split_at(end.filter(|end| *end > 0).unwrap_or(
            match rest.starts_with('\x1b') {
                true => 1,
                false => rest.len(),
            },
        ));
        match word(part).filter(|_| is_word) {
            Some(demangled) => out.push_str(&demangled),
            None => out.push_str(part),
        }
        rest = after;
    }
    out
}

fn in_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

/// A symbol, perhaps with something behind a point.
fn word(word: &str) -> Option<String> {
    if !word.starts_with('_') {
        return None;
    }
    name(word).or_else(|| {
        let (symbol, suffix) = word.split_at(word.find('.')?);
        Some(name(symbol)? + suffix)
    })
}

/// Replaces the symbols in all texts of a value.
pub(crate) fn value(value: &mut Value) {
    match value {
        Value::String(string) => *string = text(string),
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(fields) => fields.values_mut().for_each(self::value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cpp_and_of_both_schemes_of_rust_are_read() {
        for (symbol, expected) in [
            ("_ZN5shape4areaEd", "shape::area(double)"),
            ("__ZN5shape4areaEd", "shape::area(double)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                "foo::example_function",
            ),
        ] {
            assert_eq!(name(symbol).as_deref(), Some(expected), "{symbol}");
        }
        for other in ["main", "_start", "_ZL", "_Z", "_R", "__R", "_Zoom!", ""] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn symbols_are_found_between_anything() {
        let colours = "\x1b[1m_Z3getv\x1b[0m at 0x10, in _Z3getv.\n";
        assert_eq!(text(colours), "\x1b[1mget()\x1b[0m at 0x10, in get().\n");
        assert_eq!(text("jmp 0x10 ; _Z3getv+0x8"), "jmp 0x10 ; get()+0x8");
        // Not in the middle of a word.
        for same in ["my_Z3getv", "ein _Zimmer", "\x1b", "\x1b[", "ü_", "a\x1bb"] {
            assert_eq!(text(same), same);
        }
        let mut json = serde_json::json!({ "_Z3getv": ["_Z3getv", 1, null, { "a": "in _Z3setv" }] });
        value(&mut json);
        assert_eq!(
            json,
            serde_json::json!({ "_Z3getv": ["get()", 1, null, { "a": "in set()" }] })
        );
    }
}
