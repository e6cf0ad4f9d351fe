//! The charts of a run: how long packets took, how full buffers were, what was lost.

use super::latencies::Step;
use super::report::Emulation;
use crate::output::{count, plural};
use crate::page::bars::{Bar, bars};
use crate::page::figure;
use crate::page::markup::{Element, element};
use crate::page::numbers::percent;
use crate::page::svg::{Axis, Margins, Plot, marker, polyline, with_tip};

const HEIGHT: f64 = 240.0;

const MARGINS: Margins = Margins { left: 48.0, right: 24.0, top: 28.0, bottom: 40.0 };

/// All charts that there is anything to show in.
pub fn figures(emulation: &Emulation) -> Vec<Element> {
    [latency(emulation), occupancy(emulation), losses(emulation)].into_iter().flatten().collect()
}

fn captioned(title: &str, drawing: Element, caption: &str) -> Element {
    figure(title, drawing).child(element("figcaption").text(caption))
}

/// The cumulative distribution of the latency.
fn latency(emulation: &Emulation) -> Option<Element> {
    let steps = &emulation.latency_distribution;
    let (first, last) = (steps.first()?, steps.last()?);
    let x = Axis::fitting("cycles from arrival to departure", first.cycles as f64, last.cycles as f64);
    let ticks = [0, 25, 50, 75, 100].map(|share| (f64::from(share), format!("{share}%"))).to_vec();
    let y = Axis::with_ticks("packets that took at most so long, %", 0.0, 100.0, ticks);
    let of = &emulation.report.latency_cycles;
    let summary = format!(
        "Latency: half of the packets took at most {} cycles, 99% at most {}, all at most {}",
        count(of.p50),
        count(of.p99),
        count(of.max)
    );
    let mut plot = Plot::new(&summary, HEIGHT, MARGINS, &x, &y);
    let at = |cycles: u64, share: f64| (plot.x.at(cycles as f64), plot.y.at(100.0 * share));
    // Up at each latency that occurs, level up to the next one.
    let mut way = vec![at(first.cycles, 0.0)];
    let mut reached = 0.0;
    for Step { cycles, share } in steps {
        way.extend([at(*cycles, reached), at(*cycles, *share)]);
        reached = *share;
    }
    way.dedup();
    let marks = [(of.p50, 0.5), (of.p99, 0.99), (of.max, 1.0)].map(|(cycles, share)| {
        let tip = format!("{} of the packets: {} at most", percent(share), plural(cycles, "cycle"));
        with_tip(marker(at(cycles, share), 0, true), &tip)
    });
    plot.draw(polyline(&way, "series s0"));
    marks.into_iter().for_each(|mark| plot.draw(mark));
    let least = plural(first.cycles, "cycle");
    let caption = format!(
        "{summary}; none took less than {least}. Markers are at these shares. Lost packets do not count."
    );
    Some(captioned("Latency", plot.finish(), &caption))
}

/// The most that each buffer held, beside its size.
fn occupancy(emulation: &Emulation) -> Option<Element> {
    let of = |(buffer, most): (&String, &u64)| {
        let size = *emulation.buffer_sizes.get(buffer)?;
        let text = format!("{} of {}", count(*most), count(size));
        Some(Bar { name: buffer.clone(), value: 100.0 * *most as f64 / size.max(1) as f64, text })
    };
    let used = emulation.report.occupancy_max.iter().filter(|(_, most)| **most > 0);
    let all: Vec<Bar> = used.filter_map(of).collect();
    let fullest = all.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let summary = format!(
        "The most that each buffer held, of its size; the fullest was {} with {}",
        fullest.name, fullest.text
    );
    let x = Axis::linear("the most that was held, % of the size", 100.0);
    let drawing = bars(&summary, "buffer", &x, "busy", &all);
    let caption = format!(
        "{summary}. Packets in rb, pb, flow queues and the ring, flows in the others. Buffers that nothing was in are left out."
    );
    Some(captioned("Buffers", drawing, &caption))
}

/// Lost packets by cause, if there are any.
fn losses(emulation: &Emulation) -> Option<Element> {
    let report = &emulation.report;
    let share = |lost: u64| lost as f64 / report.packets_in.max(1) as f64;
    let of = |(cause, lost): (&&str, &u64)| {
        let text = format!("{}, {}", plural(*lost, "packet"), percent(share(*lost)));
        Bar { name: cause.replace('_', " "), value: 100.0 * share(*lost), text }
    };
    let all: Vec<Bar> = report.drops.iter().map(of).collect();
    let most = all.iter().map(|bar| bar.value).max_by(f64::total_cmp)?;
    let (lost, packets) = (count(report.lost()), plural(report.packets_in, "packet"));
    let summary = format!("{lost} of {packets} were lost, by cause");
    let drawing =
        bars(&summary, "cause", &Axis::linear("lost, % of the packets that arrived", most), "lost", &all);
    Some(captioned("Losses", drawing, &format!("{summary}.")))
}
