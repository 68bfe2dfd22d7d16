//! Colours, where somebody looks.

use std::fmt;
use std::io::{self, IsTerminal};

/// ANSI codes.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Cyan => 36,
        }
    }
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Colours,
    Plain,
}

impl Paint {
    /// Colours on a terminal that has some, unless the environment's `NO_COLOR` says no.
    pub(crate) fn for_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let has = std::env::var_os("TERM").is_none_or(|name| name != "dumb");
        match io::stdout().is_terminal() && wanted && has {
            true => Self::Colours,
            false => Self::Plain,
        }
    }

    pub(crate) fn of(self, style: Style, text: impl fmt::Display) -> String {
        match self {
            Self::Colours => format!("\x1b[{}m{text}\x1b[0m", style.code()),
            Self::Plain => text.to_string(),
        }
    }
}
