//! As much of JSON as the tool prints.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// Numbers that are not of this type are not looked at.
    Number(Option<u64>),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a text, all of it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        let value = value(&mut rest)?;
        rest.trim().is_empty().then_some(value)
    }

    pub(super) fn get(&self, key: &str) -> &Self {
        match self {
            Self::Object(fields) => fields
                .iter()
                .find(|(name, _)| name == key)
                .map_or(&Self::Null, |(_, value)| value),
            _ => &Self::Null,
        }
    }

    pub(super) fn list(&self) -> &[Self] {
        match self {
            Self::List(values) => values,
            _ => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => *number,
            _ => None,
        }
    }
}

fn eat(rest: &mut &str, what: &str) -> bool {
    *rest = rest.trim_start();
    let after = rest.strip_prefix(what);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

fn value(rest: &mut &str) -> Option<Value> {
    for (word, value) in [
        ("null", Value::Null),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
    ] {
        if eat(rest, word) {
            return Some(value);
        }
    }
    if eat(rest, "[") {
        let mut values = Vec::new();
        while !eat(rest, "]") {
            values.push(value(rest)?);
            eat(rest, ",");
        }
        return Some(Value::List(values));
    }
    if eat(rest, "{") {
        let mut fields = Vec::new();
        while !eat(rest, "}") {
            let key = string(rest)?;
            if !eat(rest, ":") {
                return None;
            }
            fields.push((key, value(rest)?));
            eat(rest, ",");
        }
        return Some(Value::Object(fields));
    }
    if rest.starts_with('"') {
        return string(rest).map(Value::Text);
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))?;
    let (number, after) = rest.split_at(end);
    *rest = after;
    (!number.is_empty()).then(|| Value::Number(number.parse().ok()))
}

fn string(rest: &mut &str) -> Option<String> {
    if !eat(rest, "\"") {
        return None;
    }
    let mut text = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => match chars.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'u' => {
                    let digits = chars.as_str().get(..4)?;
                    text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    chars = chars.as_str().get(4..)?.chars();
                }
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    *rest = chars.as_str();
    Some(text)
}

#[test]
fn what_the_tool_prints_is_read() {
    let value =
        Value::read(" {\"a\": [1, -2, true], \"b\\u0041\\\"\": {\"c\": null}, \"d\": \"x\"}\n").unwrap();
    assert_eq!(value.get("a").list()[0].number(), Some(1));
    assert_eq!(value.get("a").list()[2], Value::Bool(true));
    assert_eq!(value.get("bA\"").get("c"), &Value::Null);
    assert_eq!(value.get("d").text(), Some("x"));
    assert_eq!(Value::read("{\"a\" 1}"), None);
}
