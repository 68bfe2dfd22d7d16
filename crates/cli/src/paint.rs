//! Colours, where somebody looks.

use std::fmt;
use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Effects};

/// What a text is, by how it looks.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl From<Style> for anstyle::Style {
    fn from(style: Style) -> Self {
        match style {
            Style::Bold => Effects::BOLD.into(),
            Style::Dim => Effects::DIMMED.into(),
            Style::Red => AnsiColor::Red.on_default(),
            Style::Green => AnsiColor::Green.on_default(),
            Style::Yellow => AnsiColor::Yellow.on_default(),
            Style::Cyan => AnsiColor::Cyan.on_default(),
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
    /// Colours on a terminal that has some, unless the environment says something else, by
    /// `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.
    pub(crate) fn for_stdout() -> Self {
        match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => Self::Plain,
            ColorChoice::Auto | ColorChoice::AlwaysAnsi | ColorChoice::Always => Self::Colours,
        }
    }

    pub(crate) fn of(self, style: Style, text: impl fmt::Display) -> String {
        match self {
            Self::Colours => {
                let style = anstyle::Style::from(style);
                format!("{style}{text}{style:#}")
            }
            Self::Plain => text.to_string(),
        }
    }
}
