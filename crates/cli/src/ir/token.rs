//! The words of LLVM's language, as its lexer tells them apart: white space and comments are
//! between them and mean nothing.

use std::borrow::Cow;

/// A word of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// `@name`, without the sign and its quotes.
    Global(Cow<'a, str>),
    /// `%name`: only that it is one matters.
    Local,
    /// `name:` at the start of a block, or a key of metadata.
    Label,
    /// `#0`, a group of attributes.
    Group(&'a str),
    /// In quotes.
    Text(Cow<'a, str>),
    /// A keyword, a type, a number or `...`.
    Word(&'a str),
    Sign(char),
}

impl Token<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if *found == word)
    }

    pub(super) fn is_sign(&self, sign: char) -> bool {
        matches!(self, Self::Sign(found) if *found == sign)
    }
}

/// The tokens of a text, each with its line.
pub(super) fn tokens(text: &str) -> Result<Vec<(u32, Token<'_>)>, Unclosed> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut found = Vec::new();
    while let Some(token) = lexer.next()? {
        found.push(token);
    }
    Ok(found)
}

/// A quote on this line has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclosed(pub(super) u32);

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'$' | b'.' | b'_' | b'+') || byte >= 0x80
}

const WHOLE: &str = "the bytes of a character that is not ASCII belong together";

impl<'a> Lexer<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The bytes from here on for which this holds.
    fn run(&mut self, holds: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.text.get(self.at..).expect(WHOLE);
        let end = rest.bytes().position(|byte| !holds(byte)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).expect(WHOLE)
    }

    fn next(&mut self) -> Result<Option<(u32, Token<'a>)>, Unclosed> {
        loop {
            match self.byte() {
                None => return Ok(None),
                Some(b'\n') => {
                    self.line += 1;
                    self.at += 1;
                }
                Some(b' ' | b'\t' | b'\r' | 0) => self.at += 1,
                Some(b';') => {
                    self.run(|byte| byte != b'\n');
                }
                Some(first) => {
                    let line = self.line;
                    return Ok(Some((line, self.token(first)?)));
                }
            }
        }
    }

    fn token(&mut self, first: u8) -> Result<Token<'a>, Unclosed> {
        match first {
            b'@' | b'%' => {
                self.at += 1;
                let name = self.name()?;
                Ok(match first {
                    b'@' => Token::Global(name),
                    _ => Token::Local,
                })
            }
            b'#' => {
                self.at += 1;
                Ok(Token::Group(self.run(in_word)))
            }
            b'"' => {
                let text = self.name()?;
                Ok(self.label().unwrap_or(Token::Text(text)))
            }
            first if in_word(first) => {
                let word = self.run(in_word);
                Ok(self.label().unwrap_or(Token::Word(word)))
            }
            first => {
                self.at += 1;
                Ok(Token::Sign(char::from(first)))
            }
        }
    }

    fn label(&mut self) -> Option<Token<'a>> {
        (self.byte() == Some(b':')).then(|| {
            self.at += 1;
            Token::Label
        })
    }

    /// A name, in quotes or not.
    fn name(&mut self) -> Result<Cow<'a, str>, Unclosed> {
        if self.byte() != Some(b'"') {
            return Ok(Cow::Borrowed(self.run(in_word)));
        }
        let line = self.line;
        self.at += 1;
        let quoted = self.run(|byte| byte != b'"');
        if self.byte().is_none() {
            return Err(Unclosed(line));
        }
        self.at += 1;
        self.line += quoted.bytes().map(|byte| u32::from(byte == b'\n')).sum::<u32>();
        Ok(unescaped(quoted))
    }
}

/// A backslash comes before two hexadecimal digits, or before another one.
fn unescaped(quoted: &str) -> Cow<'_, str> {
    if !quoted.contains('\\') {
        return Cow::Borrowed(quoted);
    }
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [high, low, after @ ..]) if digit(high).is_some() && digit(low).is_some() => {
                let value = digit(high).zip(digit(low)).map(|(high, low)| 16 * high + low);
                bytes.extend(value.and_then(|value| u8::try_from(value).ok()));
                after
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_as_llvm_does() {
        let text = "define i64 @\"t\\22h\\\\e\"(ptr %a) #0 { ; @not\n b.1: br label %\"x y\" }\n@g=global [2 x i8] c\"a;b\", !dbg !3";
        let found: Vec<_> = tokens(text)
            .unwrap()
            .into_iter()
            .map(|(_, token)| token)
            .collect();
        use Token::{Global, Group, Label, Local, Sign, Text, Word};
        let expected = [
            Word("define"),
            Word("i64"),
            Global("t\"h\\e".into()),
            Sign('('),
            Word("ptr"),
            Local,
            Sign(')'),
            Group("0"),
            Sign('{'),
            Label,
            Word("br"),
            Word("label"),
            Local,
            Sign('}'),
            Global("g".into()),
            Sign('='),
            Word("global"),
            Sign('['),
            Word("2"),
            Word("x"),
            Word("i8"),
            Sign(']'),
            Word("c"),
            Text("a;b".into()),
            Sign(','),
            Sign('!'),
            Word("dbg"),
            Sign('!'),
            Word("3"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_counted_and_a_quote_must_end() {
        let found = tokens("a\r\n; \"\n\tb").unwrap();
        assert_eq!(found, [(1, Token::Word("a")), (3, Token::Word("b"))]);
        assert_eq!(tokens("\n@\"x"), Err(Unclosed(2)));
    }
}
