//! Reads of the sources just what the stack map does not say: the shapes of the sites and the
//! parameters of the functions. Each call of a patchpoint or stackmap is on one line.

use patchpoint::CallShape;

use crate::Folder;

/// A source: LLVM IR.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file's name without `.ll`.
    pub name: String,
    /// The functions that are defined and visible from outside.
    pub functions: Vec<Function>,
    /// The sites in the order of the text. A compiler may emit another order.
    pub sites: Vec<Site>,
}

/// A function of a source.
#[derive(Clone, Debug)]
pub struct Function {
    /// The symbol.
    pub name: String,
    /// At most six.
    pub params: Vec<Param>,
    /// Needs a machine with AVX.
    pub avx: bool,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// Any 64-bit number.
    Int,
    /// A pointer to 16 words.
    Pointer,
}

/// What a site holds before it is patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nops.
    Null,
    /// A call to this symbol.
    Symbol(String),
    /// A call to a number, which is no function's address.
    Constant,
    /// A shadow's own instructions.
    Shadow,
}

/// A patchpoint or stackmap.
#[derive(Clone, Debug)]
pub struct Site {
    /// The function that holds it; it may have been internal and inlined.
    pub function: String,
    /// The ID.
    pub id: u64,
    /// Kind, reserved length, convention, result and arguments.
    pub shape: CallShape,
    /// What it holds.
    pub target: Target,
    /// Whether its record has live values besides the arguments.
    pub live_values: bool,
}

impl Source {
    /// The shape of the sites with this ID.
    #[must_use]
    pub fn shape(&self, id: u64) -> Option<CallShape> {
        self.sites
            .iter()
            .find(|site| site.id == id)
            .map(|site| site.shape)
    }

    /// Reads a source, or returns the line that it does not understand.
    pub(crate) fn parse(name: &str, text: &str, folder: Folder) -> Result<Self, String> {
        let mut source = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut function = String::new();
        let mut left_out = false;
        for line in text.lines() {
            let complain = || line.to_owned();
            if line.starts_with("define ") {
                let found = parse_function(line).ok_or_else(complain)?;
                function.clone_from(&found.name);
                left_out = found.avx && folder != Folder::X86_64;
                if left_out {
                    continue;
                }
                if !line.starts_with("define internal") {
                    source.functions.push(found);
                }
            } else if line.contains("@llvm.experimental.") && !line.starts_with("declare") && !left_out {
                let site = parse_site(line, &function, folder).ok_or_else(complain)?;
                source.sites.push(site);
            }
        }
        Ok(source)
    }
}

fn parse_function(line: &str) -> Option<Function> {
    let (name, rest) = line.split_once('@')?.1.split_once('(')?;
    let params = rest.split_once(')')?.0;
    let params = params.split(',').map(str::trim).filter(|param| !param.is_empty());
    let params = params.map(|param| match param.split(' ').next() {
        Some("i64") => Some(Param::Int),
        Some("ptr") => Some(Param::Pointer),
        _ => None,
    });
    Some(Function {
        name: name.to_owned(),
        params: params.collect::<Option<_>>()?,
        avx: line.contains("+avx"),
    })
}

/// The text after `prefix` up to the next `,` or the closing parenthesis, and what follows.
fn operand<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let text = text.trim_start_matches([',', ' ']).strip_prefix(prefix)?;
    let mut depth = 0_u32;
    let end = text.find(|c| match c {
        '(' => {
            depth += 1;
            false
        }
        ')' if depth > 0 => {
            depth -= 1;
            false
        }
        ',' | ')' => depth == 0,
        _ => false,
    })?;
    text.split_at_checked(end)
}

fn parse_site(line: &str, function: &str, folder: Folder) -> Option<Site> {
    let (head, call) = line.split_once("@llvm.experimental.")?;
    let (_, operands) = call.split_once('(')?;
    let (id, rest) = operand(operands, "i64 ")?;
    let id = id.parse::<i64>().ok()? as u64;
    let (reserved, rest) = operand(rest, "i32 ")?;
    let reserved = folder.reserved(call.starts_with("stackmap"), reserved.parse().ok()?);
    let site = |shape, target, live_values| {
        Some(Site {
            function: function.to_owned(),
            id,
            shape,
            target,
            live_values,
        })
    };
    if call.starts_with("stackmap") {
        return site(
            CallShape::shadow(reserved),
            Target::Shadow,
            !rest.starts_with(')'),
        );
    }
    let (target, rest) = operand(rest, "ptr ")?;
    let (args, mut rest) = operand(rest, "i32 ")?;
    let args = args.parse().ok()?;
    let mut shape = match head.contains(" anyregcc ") {
        true => CallShape::any_reg(reserved),
        false => CallShape::c(reserved),
    };
    if !call.starts_with("patchpoint.void") {
        shape = shape.result();
    }
    let target = match target.strip_prefix('@') {
        Some(_) if folder.has_no_symbol_targets() => Target::Null,
        Some(symbol) => Target::Symbol(symbol.to_owned()),
        None if target == "null" => Target::Null,
        None => Target::Constant,
    };
    for _ in 0..args {
        rest = operand(rest, "")?.1;
    }
    site(shape.args(args), target, !rest.starts_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_site_with_a_nested_target() {
        let line = "  %r = call anyregcc i64 (i64, i32, ptr, i32, ...) @llvm.experimental.patchpoint.i64(i64 -1, \
                    i32 24, ptr inttoptr (i64 20015998341120 to ptr), i32 2, i64 %a, i64 %b)";
        let site = parse_site(line, "f", Folder::X86_64).unwrap();
        assert_eq!(site.id, u64::MAX);
        assert_eq!(site.target, Target::Constant);
        assert_eq!(site.shape, CallShape::any_reg(24).result().args(2));
        assert!(!site.live_values);
        let site = parse_site(&line.replace("i32 2", "i32 1"), "f", Folder::X86_64).unwrap();
        assert!(site.live_values);
    }
}
