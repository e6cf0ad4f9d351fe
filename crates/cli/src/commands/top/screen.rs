//! Draws the screen of `paceline top`.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::view::{CoreView, FunctionView, InterfaceView, Named, View};
use crate::output::{count, percent, plural};

/// What the terminal shows. Its lines are made for 80 columns; colours only repeat what the text says.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Where the run is, as the user wrote it.
    pub address: String,
    pub view: View,
    /// The first core that is shown where not all have room.
    pub first_core: usize,
    /// Whether it is renewed, and keys are heeded.
    pub is_live: bool,
    /// Something that the user should know.
    pub note: Option<String>,
}

const WIDTH: usize = 80;

/// Width of a core's bar, without its ends.
const BAR: usize = 10;

/// A core that is so busy is near its end.
const NEAR_FULL: f64 = 0.9;

impl Widget for &Screen {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        Paragraph::new(self.lines(Some(usize::from(area.height)))).render(area, buffer);
    }
}

/// A heading and the rows under it.
struct Section {
    heading: String,
    rows: Vec<Line<'static>>,
    /// The first row that is shown where not all have room.
    first: usize,
    /// What the rows are, for those that have no room.
    what: &'static str,
}

impl Screen {
    /// All of it as plain text.
    pub fn text(&self) -> String {
        let lines = self.lines(None).into_iter();
        lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
    }

    /// The lines, no more than `height` where that is given.
    fn lines(&self, height: Option<usize>) -> Vec<Line<'static>> {
        let mut lines = self.head();
        let sections: Vec<_> =
            self.sections().into_iter().filter(|section| !section.rows.is_empty()).collect();
        // A heading and an empty line before it.
        let room = height.map(|height| height.saturating_sub(lines.len() + 2 * sections.len()));
        let wanted: Vec<usize> = sections.iter().map(|section| section.rows.len()).collect();
        let shares = shares(room.unwrap_or(usize::MAX), &wanted);
        for (section, share) in sections.into_iter().zip(shares) {
            lines.push(Line::default());
            lines.push(Line::from(section.heading.clone()).bold());
            lines.extend(section.shown(share));
        }
        lines.truncate(height.unwrap_or(usize::MAX));
        lines
    }

    fn head(&self) -> Vec<Line<'static>> {
        let View { chain, strategy, seconds, packets, packets_per_s, mbit_per_s, .. } = &self.view;
        let title = format!("paceline top {}", self.address);
        let keys = match self.is_live {
            true => "arrows: other cores, q: quit",
            false => "",
        };
        let cores = plural(self.view.cores.len() as u64, "core");
        let since = if self.view.is_since_begin { ", mean since then" } else { "" };
        let mut lines = vec![
            Line::from(format!("{title}{keys:>0$}", WIDTH.saturating_sub(title.chars().count()))).bold(),
            Line::from(format!("{chain}, {strategy} on {cores}, for {seconds:.1} s{since}")),
            Line::from(format!(
                "{} packets/s, {} Mbit/s, {} dropped; {} so far",
                short(*packets_per_s),
                short(*mbit_per_s),
                percent(self.view.dropped),
                plural(*packets as u64, "packet"),
            )),
        ];
        lines.extend(self.note.iter().map(|note| Line::from(note.clone()).bold()));
        lines
    }

    fn sections(&self) -> [Section; 6] {
        let View { cores, interfaces, functions, drops, events, told, strategy, .. } = &self.view;
        let heading = |name: &str| format!("{name:<56} {:>11} {:>11}", "per second", "total");
        let core_heading = format!(
            "core {:<17} {:>11} {:>9} {:>5} {:>9} {:>13} {:>5}",
            "busy", "packets/s", "Mbit/s", "queue", "drops/s", "moved in/out", "held"
        );
        let function_heading = format!(
            "{:<23} {:>8} {:>6} {:>11} {:>9} {:>9} {:>8}",
            "function", "flows", "load", "packets/s", "drops/s", "rejected", "evicted"
        );
        let interface_heading = format!(
            "{:<23} {:>11} {:>9} {:>11} {:>9} {:>12}",
            "interface", "received/s", "Mbit/s", "sent/s", "Mbit/s", "lost, total"
        );
        [
            Section {
                heading: core_heading,
                rows: cores.iter().map(core_row).collect(),
                first: self.first_core,
                what: "cores",
            },
            Section {
                heading: format!("what {strategy} does"),
                rows: told.iter().cloned().map(Line::from).collect(),
                first: 0,
                what: "lines",
            },
            Section {
                heading: interface_heading,
                rows: interfaces.iter().map(interface_row).collect(),
                first: 0,
                what: "interfaces",
            },
            Section {
                heading: function_heading,
                rows: functions.iter().map(function_row).collect(),
                first: 0,
                what: "functions",
            },
            Section {
                heading: heading("drops, function/reason"),
                rows: drops.iter().map(named_row).collect(),
                first: 0,
                what: "reasons",
            },
            Section {
                heading: heading("events, function/event"),
                rows: events.iter().map(named_row).collect(),
                first: 0,
                what: "events",
            },
        ]
    }
}

impl Section {
    /// As many rows as there is room for; the last one says how many there are beside.
    fn shown(mut self, room: usize) -> Vec<Line<'static>> {
        let all = self.rows.len();
        if room >= all {
            return self.rows;
        }
        let shown = room.saturating_sub(1);
        let first = self.first.min(all - shown);
        let mut rows: Vec<_> = self.rows.drain(first..first + shown).collect();
        if room > 0 {
            rows.push(Line::from(format!("... {} more {}", all - shown, self.what)));
        }
        rows
    }
}

/// Divides `room` rows among sections: row by row, to each that wants more.
fn shares(mut room: usize, wanted: &[usize]) -> Vec<usize> {
    if wanted.iter().sum::<usize>() <= room {
        return wanted.to_vec();
    }
    let mut shares = vec![0; wanted.len()];
    while room > 0 {
        for (share, wanted) in shares.iter_mut().zip(wanted) {
            if *share < *wanted && room > 0 {
                *share += 1;
                room -= 1;
            }
        }
    }
    shares
}

fn core_row(view: &CoreView) -> Line<'static> {
    let CoreView { core, busy, queue, .. } = view;
    let filled = (busy.unwrap_or(0.0) * BAR as f64).round() as usize;
    let bar = format!("[{:<BAR$}]", "#".repeat(filled.min(BAR)));
    let share = busy.map_or("   -".to_owned(), |busy| format!("{:>3.0}%", busy * 100.0));
    let style = if busy.is_some_and(|busy| busy >= NEAR_FULL) {
        Style::new().fg(Color::Red)
    } else {
        Style::new().fg(Color::Green)
    };
    let moved = format!("{}/{}", short(view.moved_in), short(view.moved_out));
    let queue = queue.map_or("-".to_owned(), short);
    Line::from(vec![
        Span::raw(format!("{core:>4} ")),
        Span::styled(bar, style),
        Span::raw(format!(
            " {share} {:>11} {:>9} {queue:>5} {:>9} {moved:>13} {:>5}",
            short(view.packets_per_s),
            short(view.mbit_per_s),
            short(view.drops_per_s),
            short(view.held),
        )),
    ])
}

fn interface_row(view: &InterfaceView) -> Line<'static> {
    Line::from(format!(
        "{:<23} {:>11} {:>9} {:>11} {:>9} {:>12}",
        cut(&view.name, 23),
        short(view.received),
        short(view.received_mbit),
        short(view.sent),
        short(view.sent_mbit),
        short(view.lost),
    ))
}

fn function_row(view: &FunctionView) -> Line<'static> {
    let (flows, load) = match view.flows {
        Some(flows) => (short(flows), percent(view.load)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    Line::from(format!(
        "{:<23} {flows:>8} {load:>6} {:>11} {:>9} {:>9} {:>8}",
        cut(&view.name, 23),
        short(view.packets_per_s),
        short(view.drops_per_s),
        short(view.rejected),
        short(view.evicted),
    ))
}

fn named_row(view: &Named) -> Line<'static> {
    Line::from(format!("{:<56} {:>11} {:>11}", cut(&view.name, 56), short(view.per_s), short(view.total)))
}

/// The beginning of a name that is too long.
fn cut(name: &str, width: usize) -> String {
    name.chars().take(width).collect()
}

/// A number in at most 6 characters: whole below 10,000, with three digits that count above.
fn short(number: f64) -> String {
    if number.round() < 10_000.0 {
        return match number {
            number if number < 9.995 && number.fract() != 0.0 => format!("{number:.2}"),
            number => count(number.round() as u64),
        };
    }
    let mut scaled = number;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if scaled < 999.5 {
            let places = match scaled {
                scaled if scaled < 9.995 => 2,
                scaled if scaled < 99.95 => 1,
                _ => 0,
            };
            return format!("{scaled:.places$}{unit}");
        }
        scaled /= 1000.0;
    }
    format!("{number:.0e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.5, "0.50"),
            (7.0, "7"),
            (9.996, "10"),
            (12.3, "12"),
            (9_999.4, "9,999"),
            (9_999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_499.0, "999k"),
            (999_501.0, "1.00M"),
            (31_234_567.0, "31.2M"),
            (1e9, "1.00G"),
            (1e17, "100P"),
            (1e20, "1e20"),
        ];
        for (number, expected) in cases {
            assert_eq!(short(number), expected);
            assert!(expected.len() <= 6);
        }
    }

    #[test]
    fn sections_share_the_room() {
        assert_eq!(shares(13, &[2, 3, 4, 4]), [2, 3, 4, 4]);
        assert_eq!(shares(13, &[64, 3, 4, 9]), [4, 3, 3, 3]);
        assert_eq!(shares(2, &[64, 3, 4]), [1, 1, 0]);
        assert_eq!(shares(0, &[1]), [0]);
    }
}
