//! What a user tells of records: `7=anyreg,32,result,args=1`, and the like.

use std::str::FromStr;

use patchpoint::CallShape;
use patchpoint::arch::SiteKind;

use crate::number::{number, record_id};

/// What was told of the records with an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// They are no sites.
    No,
    /// Only their length: the rest is inferred.
    Bytes(u32),
    Whole(CallShape),
}

/// A shape and the records that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToldShape {
    /// The only function that is meant: an ID may stand for other sites in other functions.
    pub(crate) function: Option<String>,
    /// `None`: all of which nothing else is told.
    pub(crate) id: Option<u64>,
    pub(crate) shape: Shape,
}

const EXPECTED: &str = "expected ID=SHAPE, such as 7=anyreg,32,result,args=1 or 8=c,40 or 9=shadow,16 or 10=24 or 11=none; get:7 \
                        stands for ID 7 in the function get alone, * for all others";

impl FromStr for ToldShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A function's name may hold either sign.
        let (id, shape) = split(text).ok_or(EXPECTED)?;
        let (function, id) = match id.rsplit_once(':') {
            Some((function, id)) => (Some(function.trim().to_owned()), id),
            None => (None, id),
        };
        let id = match id.trim() {
            "*" if function.is_some() => return Err(EXPECTED.to_owned()),
            "*" => None,
            id => Some(record_id(id).ok_or(EXPECTED)?),
        };
        let shape = Shape::read(shape).ok_or(EXPECTED)?;
        shape.check()?;
        Ok(Self { function, id, shape })
    }
}

/// What is before and behind the sign: the first behind which there is no other ID.
fn split(text: &str) -> Option<(&str, &str)> {
    let start = text.rfind(':').map_or(0, |colon| colon + 1);
    let sign = start + text.get(start..)?.find('=')?;
    Some((text.get(..sign)?, text.get(sign + 1..)?))
}

impl Shape {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(',').map(str::trim);
        let make = match words.next()? {
            "none" => return words.next().is_none().then_some(Self::No),
            "anyreg" => CallShape::any_reg,
            "c" => CallShape::c,
            "shadow" => CallShape::shadow,
            bytes => {
                let bytes = u32::try_from(number(bytes)?).ok()?;
                return words.next().is_none().then_some(Self::Bytes(bytes));
            }
        };
        let reserved = u32::try_from(number(words.next()?)?).ok()?;
        let mut shape = make(reserved);
        let mut args = None;
        for word in words {
            shape = match word.split_once('=') {
                None if word == "result" && !shape.has_result() => shape.result(),
                Some(("args", count)) if args.is_none() => {
                    let count = count.parse().ok()?;
                    args = Some(count);
                    shape.args(count)
                }
                _ => return None,
            };
        }
        Some(Self::Whole(shape))
    }

    /// The number of reserved bytes.
    pub(crate) fn bytes(self) -> Option<u32> {
        match self {
            Self::No => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Whole(shape) => Some(shape.reserved().get()),
        }
    }

    /// Refuses what no call of LLVM's IR can be.
    fn check(self) -> Result<(), String> {
        if let Some(bytes) = self.bytes().filter(|bytes| i32::try_from(*bytes).is_err()) {
            return Err(format!("LLVM reserves at most {} bytes, not {bytes}", i32::MAX));
        }
        match self {
            Self::Whole(shape)
                if shape.kind() == SiteKind::Shadow && (shape.has_result() || shape.arg_count() > 0) =>
            {
                Err("a shadow has neither a result nor arguments".to_owned())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<ToldShape, String> {
        text.parse()
    }

    fn whole(function: Option<&str>, id: u64, shape: CallShape) -> Result<ToldShape, String> {
        Ok(ToldShape {
            function: function.map(str::to_owned),
            id: Some(id),
            shape: Shape::Whole(shape),
        })
    }

    #[test]
    fn a_shape_is_told_in_words() {
        assert_eq!(
            told("7=anyreg,32,result,args=1"),
            whole(None, 7, CallShape::any_reg(32).result().args(1))
        );
        assert_eq!(told("0x8 = c, 40"), whole(None, 8, CallShape::c(40)));
        assert_eq!(told("-1=shadow,16"), whole(None, u64::MAX, CallShape::shadow(16)));
        assert_eq!(told("get:7=c,8"), whole(Some("get"), 7, CallShape::c(8)));
        assert_eq!(told("a::b=c:7=c,8"), whole(Some("a::b=c"), 7, CallShape::c(8)));
        let others = told("*=24").unwrap();
        assert_eq!((others.id, others.shape), (None, Shape::Bytes(24)));
        assert_eq!(told("9=none").unwrap().shape, Shape::No);
        for wrong in [
            "7",
            "=24",
            "7=",
            "x=24",
            "7=anyreg",
            "7=c,x",
            "7=24,result",
            "7=none,1",
            "7=c,8,args",
            "7=c,8,args=-1",
            "7=entry,8",
            "7=anyreg,8,result,result",
            "7=anyreg,8,args=1,args=2",
            "get:=8",
            "get:*=8",
        ] {
            assert!(told(wrong).unwrap_err().contains("such as"), "{wrong}");
        }
        for wrong in ["7=shadow,8,result", "7=shadow,8,args=1"] {
            assert!(told(wrong).unwrap_err().contains("neither a result"), "{wrong}");
        }
        for wrong in ["7=c,2147483648", "7=4294967295"] {
            assert!(told(wrong).unwrap_err().contains("at most 2147483647"), "{wrong}");
        }
    }
}
