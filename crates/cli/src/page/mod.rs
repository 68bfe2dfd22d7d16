//! Functions as a page of HTML: their instructions with arrows for branches, their sites, what is
//! live there, and what a sequence would make of them. One file with neither scripts nor anything
//! that is fetched.

mod arrows;

use std::fmt::{self, Write};

use patchpoint::addr::CodeAddr;
use patchpoint::arch::Convention;
use patchpoint::site::Function;
use patchpoint::verify::branches_to;

use crate::args::Plan;
use crate::lines;
use crate::names::{Listed, hex};
use crate::paint::Paint;
use crate::planned::{Planned, Written};
use crate::problem::Problem;
use crate::shapes::Source;
use crate::sites;
use crate::survey::{RecordState, Registered, Survey, kind};
use crate::words::{count, count_u64};
use crate::{demangle, text};
use arrows::Arrow;

/// The functions that have sites with the ID, with all their sites.
pub(crate) fn functions(
    plan: &Plan,
    survey: &Survey,
    planned: &[Planned<'_>],
    demangle: bool,
) -> Result<String, Problem> {
    let mut page = Page {
        plan,
        survey,
        demangle,
        out: String::new(),
    };
    // Writing to a string does not fail.
    let _ = page.head(planned.len());
    let start = |site: &Planned<'_>| site.registered.site.function().addr();
    // They are in the order of their addresses.
    for sites in planned.chunk_by(|one, next| start(one) == start(next)) {
        let function = sites.first().map(|site| site.registered.site.function());
        let function = function.expect("a chunk has a site");
        let listing = page.listing(&function)?;
        let _ = page.function(&function, &listing);
        for site in sites {
            let _ = page.site(site);
        }
    }
    Ok(page.out)
}

/// A function's instructions, and the branches among them.
struct Listing {
    lines: Vec<Listed>,
    arrows: Vec<Arrow>,
}

struct Page<'p> {
    plan: &'p Plan,
    survey: &'p Survey,
    demangle: bool,
    out: String,
}

impl Page<'_> {
    /// Text as HTML has it, with names as the source has them if that is wanted.
    fn escaped(&self, text: impl fmt::Display) -> String {
        let mut text = text.to_string();
        if self.demangle {
            text = demangle::text(&text);
        }
        escape(&text)
    }

    fn head(&mut self, sites: usize) -> fmt::Result {
        let heading = sites::heading(self.survey, Paint::Plain);
        let (file, about) = heading.trim_end().split_once(": ").unwrap_or((&heading, ""));
        let (file, about) = (self.escaped(file), self.escaped(about));
        writeln!(self.out, "<h1>{file}</h1>\n<p class=\"dim\">{about}</p>")?;
        let id = self.plan.id;
        let sites = count(sites, "site");
        writeln!(
            self.out,
            "<p>What this sequence makes of {sites} with ID {id}:</p>"
        )?;
        let sequence = self.escaped(&self.plan.seq);
        writeln!(self.out, "<div class=\"sequence\">{sequence}</div>")
    }

    fn listing(&self, function: &Function) -> Result<Listing, Problem> {
        let (start, len) = (function.addr(), function.len());
        let mut bytes = vec![0; len.as_usize()];
        let mut areas = function.module().areas().iter();
        let area = areas.find(|area| area.range().contains(start));
        area.expect("a function's code lies in its module")
            .read(start, &mut bytes)
            .map_err(patchpoint::Error::from)?;
        // Of a process, what it has now.
        for (registered, at) in sites_of(self.survey, function) {
            let now = registered.now.as_deref().unwrap_or(&[]);
            let from = usize::try_from(at).expect("a site lies in its function");
            if let Some(old) = bytes.get_mut(from..).and_then(|rest| rest.get_mut(..now.len())) {
                old.copy_from_slice(now);
            }
        }
        let lines = self
            .survey
            .names
            .listing(self.survey.arch, start, &bytes, |_| None);
        let starts: Vec<_> = lines.iter().map(|listed| listed.line.addr).collect();
        let line_of = |addr: u64| starts.binary_search_by_key(&addr, |start| start.get()).ok();
        let mut branches = Vec::new();
        let is_inside = |to| CodeAddr::new(to).is_within(start, len);
        branches_to(self.survey.arch, start, &bytes, is_inside, &mut branches);
        let arrows = branches.iter().filter_map(|branch| {
            Some(Arrow {
                from: line_of(branch.from.get())?,
                to: line_of(branch.to.get())?,
            })
        });
        let arrows = arrows.collect();
        Ok(Listing { lines, arrows })
    }

    fn function(&mut self, function: &Function, listing: &Listing) -> fmt::Result {
        let name = match function.name() {
            "" => "(no name)",
            name => name,
        };
        let name = self.escaped(name);
        let size = count_u64(function.len().get().into(), "byte");
        let instructions = count(listing.lines.len(), "instruction");
        let sites: Vec<_> = sites_of(self.survey, function).collect();
        let returns = match sites.iter().any(|(site, _)| !site.return_offsets.is_empty()) {
            true => "; ↩ is where a call in a site returns to",
            false => "",
        };
        writeln!(
            self.out,
            "<h2>{name}</h2>\n<p class=\"dim\">at {}, {size}, {instructions}{returns}</p>",
            function.addr()
        )?;
        let (picture, width) = arrows::picture(&listing.arrows, listing.lines.len());
        let mut out = format!("<div class=\"code\">{picture}<table style=\"margin-left:{width}px\">\n");
        for listed in &listing.lines {
            let at = listed.line.addr.get() - function.addr().get();
            let site = sites.iter().find(|(registered, start)| {
                (*start..start + u64::from(registered.shape.reserved().get())).contains(&at)
            });
            let returns = sites.iter().any(|(registered, start)| {
                let mut offsets = registered.return_offsets.iter();
                offsets.any(|offset| start + u64::from(*offset) == at)
            });
            let mut classes = Vec::new();
            classes.extend(listed.is_nop.then_some("nop"));
            classes.extend(site.map(|(_, start)| if *start == at { "site first" } else { "site" }));
            classes.extend(returns.then_some("returns"));
            let badge = site
                .filter(|(_, start)| *start == at)
                .map(|(registered, _)| self.badge(registered));
            self.line(
                &mut out,
                listed,
                at,
                &classes.join(" "),
                badge.as_deref().unwrap_or(""),
            )?;
        }
        out.push_str("</table></div>\n");
        self.out.push_str(&out);
        Ok(())
    }

    /// A line of a listing, at a distance from what it begins with.
    fn line(&self, out: &mut String, listed: &Listed, at: u64, class: &str, badge: &str) -> fmt::Result {
        let line = &listed.line;
        let text = match listed.is_nop {
            true => format!("nop, {}", count(line.bytes.len(), "byte")),
            false => line.text.clone(),
        };
        let note = match &listed.refers_to {
            Some(name) => format!("  <span class=\"note\">{}</span>", self.escaped(name)),
            None => String::new(),
        };
        writeln!(
            out,
            "<tr class=\"{class}\"><td class=\"at\">+{at:x}</td><td class=\"bytes\">{}</td><td class=\"what\">{}{note}{badge}</td></tr>",
            hex(&line.bytes, " "),
            self.escaped(text)
        )
    }

    fn badge(&self, registered: &Registered) -> String {
        let id = registered.site.id().get();
        let what = format!("{} {id}", kind(registered));
        // The others have no card.
        match id == self.plan.id {
            true => format!("<a class=\"badge\" href=\"#{}\">{what}</a>", anchor(registered)),
            false => format!("<span class=\"badge\">{what}</span>"),
        }
    }

    fn site(&mut self, planned: &Planned<'_>) -> fmt::Result {
        let registered = planned.registered;
        let reserved = count_u64(registered.shape.reserved().get().into(), "byte");
        let (what, place) = (kind(registered), self.escaped(planned.place));
        let id = planned.place.id;
        writeln!(
            self.out,
            "<div class=\"card\" id=\"{}\">\n<h3>{what} {id} at {place}</h3>",
            anchor(registered)
        )?;
        let source = lines::words(&planned.place.source);
        let source = source.map_or(String::new(), |source| format!("{}; ", self.escaped(source)));
        let at = planned.place.addr;
        match &planned.outcome {
            Ok(written) => {
                let (used, slack) = (written.used, written.slack);
                writeln!(
                    self.out,
                    "<p class=\"dim\">{source}{at}, {reserved} reserved: {used} used, {slack} slack</p>"
                )?;
                self.out.push_str(&bar(used.get(), slack.get()));
            }
            Err(error) => {
                let error = self.escaped(error);
                writeln!(
                    self.out,
                    "<p class=\"dim\">{source}{at}, {reserved} reserved</p>\n<p class=\"wrong\">refused: {error}</p>"
                )?;
            }
        }
        self.values(registered)?;
        if let Ok(written) = &planned.outcome {
            self.written(written)?;
        }
        self.out.push_str("</div>\n");
        Ok(())
    }

    /// The record's values, and the registers that are live behind the site.
    fn values(&mut self, registered: &Registered) -> fmt::Result {
        let shape = registered.shape;
        let is_told = registered.source == Source::Told && shape.convention() == Convention::AnyReg;
        let results = if is_told && shape.has_result() { 1 } else { 0 };
        let args = if is_told { shape.arg_count() } else { 0 };
        if !registered.locations.is_empty() {
            self.out.push_str(
                "<h4>Values</h4>\n<table class=\"values\"><tr><th>location</th><th>is</th><th>where</th><th>size</th></tr>\n",
            );
        }
        for (number, location) in (0u32..).zip(&registered.locations) {
            let is = match number {
                _ if number < results => "result".to_owned(),
                _ if number < results + args => format!("arg({})", number - results),
                _ => format!("live({})", number - results - args),
            };
            let place = self.escaped(text::place(location));
            let size = count_u64(location.size.into(), "byte");
            writeln!(
                self.out,
                "<tr><td>{number}</td><td>{is}</td><td><code>{place}</code></td><td>{size}</td></tr>"
            )?;
        }
        if !registered.locations.is_empty() {
            self.out.push_str("</table>\n");
        }
        if !registered.live_outs.is_empty() {
            let names = registered
                .live_outs
                .iter()
                .map(|live| format!("<code>{}</code>", text::live_out(live)));
            let names: String = names.collect();
            writeln!(self.out, "<h4>Live out</h4>\n<div class=\"chips\">{names}</div>")?;
        }
        Ok(())
    }

    fn written(&mut self, written: &Written) -> fmt::Result {
        let mut out = String::from("<div class=\"columns\">\n");
        let first = |lines: &[Listed]| lines.first().map(|listed| listed.line.addr);
        let mut part = |title: &str, class: &str, lines: &[Listed]| {
            writeln!(
                out,
                "<div class=\"{class}\"><h4>{title}</h4><div class=\"code\"><table>"
            )?;
            for listed in lines {
                let start = first(lines).expect("a line has a first one before it");
                let at = listed.line.addr.get() - start.get();
                let class = if listed.is_nop { "nop" } else { "" };
                self.line(&mut out, listed, at, class, "")?;
            }
            writeln!(out, "</table></div></div>")
        };
        part("Before", "", &written.before)?;
        part("After", "", &written.after)?;
        if let Some((addr, lines)) = &written.stub {
            part(&format!("Stub at {addr}"), "whole", lines)?;
        }
        out.push_str("</div>\n");
        self.out.push_str(&out);
        Ok(())
    }
}

/// Where the card of a site is in the page.
fn anchor(registered: &Registered) -> String {
    format!("site-{:x}", registered.site.addr().get())
}

/// The reserved bytes, each a box. Of more than a screen shows, none.
fn bar(used: u32, slack: u32) -> String {
    if used.saturating_add(slack) > 128 {
        return String::new();
    }
    let boxes = |count: u32, class: &str| format!("<i class=\"{class}\"></i>").repeat(count as usize);
    format!(
        "<div class=\"bar\">{}{}</div>\n",
        boxes(used, "used"),
        boxes(slack, "slack")
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// The sites of a function, with their distance from its start.
fn sites_of<'s>(
    survey: &'s Survey,
    function: &Function,
) -> impl Iterator<Item = (&'s Registered, u64)> + use<'s> {
    let (start, end) = (function.addr(), function.addr().plus(function.len()));
    let from = survey.rows.partition_point(|row| row.place.addr < start);
    let rows = survey.rows.iter().skip(from);
    let inside = rows.take_while(move |row| end.is_none_or(|end| row.place.addr < end));
    inside.filter_map(move |row| match &row.state {
        RecordState::Registered(registered) => Some((&**registered, registered.site.offset().get().into())),
        _ => None,
    })
}
