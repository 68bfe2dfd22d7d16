//! One file of HTML, with its style, around parts that commands have made.

/// A whole page with these parts.
pub(crate) fn of(parts: &str) -> String {
    let style = include_str!("page/style.css");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>patchpoint plan</title>\n<style>\n{style}</style>\n</head>\n<body>\n{parts}</body>\n</html>\n"
    )
}
