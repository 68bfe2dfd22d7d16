//! The arrows beside a listing: which branch goes how far to the left, and their lines.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The height of a line of the listing, as in the style sheet, in pixels.
const ROW: usize = 22;
/// The distance of one lane from the next, and of the first from the listing.
const LANE: usize = 9;
const MARGIN: usize = 14;
/// Branches beyond these share the last lane.
const LANES: usize = 16;

/// A branch from one line to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Arrow {
    fn span(self) -> (usize, usize) {
        (self.from.min(self.to), self.from.max(self.to))
    }
}

/// The lane of each, counted from the listing: short ones are next to it, and those that share a
/// lane share no line, but for those to the same target.
fn lanes(arrows: &[Arrow]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arrows.len()).collect();
    let length = |index: &usize| arrows.get(*index).map(|arrow| arrow.from.abs_diff(arrow.to));
    order.sort_by_key(length);
    let mut lanes = vec![0; arrows.len()];
    let mut taken: BTreeMap<usize, Vec<Arrow>> = BTreeMap::new();
    for index in order {
        let (Some(arrow), Some(lane)) = (arrows.get(index), lanes.get_mut(index)) else {
            continue;
        };
        let (start, end) = arrow.span();
        let is_free = |lane: &usize| {
            let others = taken.get(lane).map_or(&[][..], Vec::as_slice);
            others.iter().all(|other| {
                let (first, last) = other.span();
                end < first || last < start || other.to == arrow.to
            })
        };
        *lane = (0..LANES).find(is_free).unwrap_or(LANES - 1);
        taken.entry(*lane).or_default().push(*arrow);
    }
    lanes
}

/// The picture, and how wide it is.
pub(super) fn picture(arrows: &[Arrow], rows: usize) -> (String, usize) {
    let lanes = lanes(arrows);
    let Some(most) = lanes.iter().max() else {
        return (String::new(), 0);
    };
    let width = MARGIN + LANE * (most + 1);
    let height = ROW * rows;
    let mut out = format!("<svg width=\"{width}\" height=\"{height}\" aria-hidden=\"true\">");
    for (arrow, lane) in arrows.iter().zip(&lanes) {
        let x = width - MARGIN - LANE * lane;
        // What leaves a line and what comes to it are apart.
        let from = ROW * arrow.from + ROW / 2 + 3;
        let to = ROW * arrow.to + ROW / 2 - 3;
        let back = if arrow.to <= arrow.from { " back" } else { "" };
        let tip = width - 1;
        let foot = tip - 5;
        let _ = write!(
            out,
            "<path class=\"line{back}\" d=\"M{tip} {from}H{x}V{to}H{foot}\"/><path class=\"tip{back}\" d=\"M{tip} {to}l-6 -3.5v7z\"/>"
        );
    }
    out.push_str("</svg>");
    (out, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_that_share_lines_have_lanes_of_their_own() {
        let arrow = |(from, to)| Arrow { from, to };
        let lanes = |arrows: &[(usize, usize)]| lanes(&arrows.iter().copied().map(arrow).collect::<Vec<_>>());
        assert_eq!(lanes(&[(0, 9), (1, 3), (4, 2)]), [2, 0, 1]);
        assert_eq!(lanes(&[(0, 2), (3, 5)]), [0, 0]);
        // Of the same target.
        assert_eq!(lanes(&[(0, 5), (2, 5)]), [0, 0]);
        let many: Vec<_> = (0..40).map(|n| (n, 100 - n)).collect();
        assert_eq!(lanes(&many).into_iter().max(), Some(LANES - 1));
        assert_eq!(picture(&[], 5), (String::new(), 0));
        let (picture, width) = picture(&[arrow((3, 1))], 4);
        assert!(
            picture.contains("class=\"tip back\"") && picture.contains("height=\"88\""),
            "{picture}"
        );
        assert_eq!(width, MARGIN + LANE);
    }
}
