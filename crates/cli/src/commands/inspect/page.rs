//! The page of an inspection: what the capture asks of a chain on many cores, flows, sizes and protocols.

use std::path::Path;

use traffic::Profile;

use super::inspection::Inspection;
use super::rows;
use crate::input::name_of_input;
use crate::output::{count, percent, plural};
use crate::page::bars::{Bar, bars};
use crate::page::markup::{Element, element};
use crate::page::svg::{Axis, Margins, Plot, polyline, style_class};
use crate::page::{charts, data, figure, page, paragraph, section, table};

const HEIGHT: f64 = 260.0;
const MARGINS: Margins = Margins { left: 52.0, right: 20.0, top: 24.0, bottom: 40.0 };

/// A whole page, with the inspection's JSON in it.
pub fn render(path: &Path, inspection: &Inspection) -> String {
    let profile = &inspection.profile;
    let cut = if inspection.complete { "" } else { " before it breaks off" };
    let title = format!("{}: {}{cut}", name_of_input(path), plural(profile.packets, "packet"));
    let findings = findings(inspection).into_iter().map(|finding| element("li").text(finding));
    let lead = format!("{} bytes{}", count(profile.bytes), rows::span(profile));
    let header = element("header")
        .child(element("h1").text(&title))
        .child(element("ul").class("findings").children(findings))
        .child(paragraph("lead", &lead));
    let mut main = element("main");
    if profile.packets_in_flows > 0 {
        let conflicts = format!(
            "Conflict ratio: of all packets, those that come fewer than {} cycles after the one before of their flow, if all are \
             fed back to back into a pipeline that takes one packet a cycle, or 64 bytes a cycle.",
            profile.conflict_window
        );
        main = main
            .child(section("Flows").child(charts([sizes(profile), biggest(profile)])))
            .child(
                section("Flows by key")
                    .child(table(&rows::FLOWS, &[], rows::flows(profile)))
                    .child(paragraph("note", &conflicts)),
            )
            .child(section(rows::BIGGEST).child(table(
                &["flow", "packets", "bytes", "of all packets"],
                &[],
                rows::biggest(profile),
            )));
    }
    let parts = [
        (rows::PROTOCOLS.to_owned(), &["layer", "", "packets", "share"][..], rows::protocols(profile)),
        (rows::MALFORMED.to_owned(), &["reason", "packets", "share"], rows::malformed(profile)),
        (rows::sizes_title(profile), &["bytes", "packets", "share"], rows::sizes(profile)),
        (rows::CHECKSUMS.to_owned(), &["checksums", "packets"], rows::checksums(&inspection.checksums)),
        ("Malformed fragments".to_owned(), &["reason", "packets"], rows::fragments(&inspection.fragments)),
    ];
    let parts = parts.into_iter().filter(|(_, _, rows)| profile.packets > 0 && !rows.is_empty());
    let main =
        main.children(parts.map(|(title, header, rows)| section(&title).child(table(header, &[], rows))));
    page(
        &title,
        &inspection.paceline,
        element("body").child(header).child(main).child(data("inspection", inspection)),
    )
}

/// What a reader has to know first, in sentences.
fn findings(inspection: &Inspection) -> Vec<String> {
    let profile = &inspection.profile;
    let mut findings = Vec::new();
    if let Some(biggest) = profile.top10.first() {
        findings.push(format!(
            "The biggest of {} has {} of the packets, and the ten biggest have {}: under rss the core of the biggest gets at least \
             its share.",
            plural(profile.flows.five_tuple, "flow"),
            percent(biggest.share),
            percent(profile.top10_share)
        ));
        findings.extend(rows::flow_sizes(profile));
    }
    let wrong = inspection.checksums.wrong - inspection.checksums.left_to_card;
    if wrong > 0 {
        findings.push(format!(
            "{} have a wrong checksum that no card would have put right.",
            plural(wrong, "packet")
        ));
    }
    let malformed = profile.protocols.malformed;
    if malformed > 0 {
        findings.push(format!(
            "{} malformed: a chain drops them unless it says otherwise.",
            plural(malformed, "packet")
        ));
    }
    findings.extend(inspection.oddities.iter().cloned());
    findings.extend(inspection.error.clone());
    findings
}

/// The share of flows that have at most so many packets.
fn sizes(profile: &Profile) -> Element {
    let max = profile.flow_size_cdf.last().map_or(1, |point| point.packets).max(2);
    let x = Axis::log("packets of a flow", 1.0, max as f64);
    let y = Axis::linear("flows, %", 100.0);
    let summary = rows::flow_sizes(profile).join(" ");
    let mut plot = Plot::new(&summary, HEIGHT, MARGINS, &x, &y);
    let mut points = Vec::new();
    let mut share = 0.0;
    for point in &profile.flow_size_cdf {
        // A step: no flow has a size between two that there are.
        points.push((plot.x.at(point.packets as f64), plot.y.at(share)));
        share = point.flows_share * 100.0;
        points.push((plot.x.at(point.packets as f64), plot.y.at(share)));
    }
    plot.draw(polyline(&points, &format!("series {}", style_class(0))));
    figure("Flows that have at most so many packets", plot.finish())
        .child(element("figcaption").text(summary))
}

fn biggest(profile: &Profile) -> Element {
    let most = profile.top10.first().map_or(1.0, |flow| flow.share) * 100.0;
    let all: Vec<Bar> = profile
        .top10
        .iter()
        .map(|flow| Bar { name: flow.flow.clone(), value: flow.share * 100.0, text: percent(flow.share) })
        .collect();
    let summary = format!("The ten biggest flows have {} of all packets.", percent(profile.top10_share));
    let drawing = bars(&summary, "flow", &Axis::linear("of all packets, %", most), "busy", &all);
    figure("The biggest flows", drawing).child(element("figcaption").text(summary))
}
