//! What is checked, in order.

use serde_json::Value;

use super::live;
use super::outcome::Outcome;
use super::own::Own;
use crate::failure::DIFFERENT;
use crate::output::{count, percent, plural};

/// A check's name, and what it comes to.
type Check = (&'static str, fn(&Own) -> Outcome);

/// In order. Those after the first read the capture that it makes, so they are not tried without it.
pub const ALL: &[Check] = &[
    ("capture", |own| outcome(capture(own))),
    ("run", |own| outcome(run(own))),
    ("rss", |own| outcome(verify(own, "rss"))),
    ("rsspp", |own| outcome(verify(own, "rsspp"))),
    ("scr", |own| outcome(verify(own, "scr"))),
    ("auto", |own| outcome(verify(own, "auto"))),
    ("oracle", |own| outcome(finds_differences(own))),
    ("live", live::check),
];

fn outcome(result: Result<String, String>) -> Outcome {
    result.map_or_else(Outcome::Fails, Outcome::Holds)
}

fn capture(own: &Own) -> Result<String, String> {
    own.run(&format!("generate university --packets {} --out capture.pcap", own.packets), 0)?;
    let inspected = document(&own.run("inspect --pcap capture.pcap --json -", 0)?)?;
    let packets = inspected["packets"].as_u64().unwrap_or_default();
    if (packets as usize) < own.packets {
        return Err(format!("{packets} of {} packets were read from the capture", own.packets));
    }
    Ok(format!("{} packets made, written and read", count(packets)))
}

fn run(own: &Own) -> Result<String, String> {
    let report = document(&own.run("run edge.toml --pcap capture.pcap --json -", 0)?)?;
    let verdicts = report["verdicts"].as_object().ok_or("the report has no verdicts")?;
    let judged: u64 = verdicts.values().filter_map(Value::as_u64).sum();
    let packets = report["packets"].as_u64().unwrap_or_default();
    if packets == 0 || judged != packets {
        return Err(format!("{judged} of {packets} packets got a verdict"));
    }
    let rate = report["mpps"].as_f64().unwrap_or_default();
    Ok(format!("each of {} packets got a verdict; {rate:.1} Mpps with reading", count(packets)))
}

fn verify(own: &Own, strategy: &str) -> Result<String, String> {
    let command = format!("verify edge.toml --pcap capture.pcap --strategy {strategy} --cores 2 --json -");
    let result = document(&own.run(&command, 0)?)?;
    let packets = result["packets"].as_u64().unwrap_or_default();
    if packets == 0 || result["exact"] != true {
        return Err(format!("2 cores hold, but not all of {packets} packets were compared"));
    }
    Ok(format!("2 cores give the answer of one: {} verdicts, all bytes, all states", count(packets)))
}

/// An oracle that always says yes would pass the checks before: replicas that lose packets, and do not recover them, differ.
fn finds_differences(own: &Own) -> Result<String, String> {
    let lossy = "verify edge.toml --pcap capture.pcap --strategy scr --cores 2 --sequencer external --loss 0.1 --json -";
    let found = document(&own.run(&format!("{lossy} --recovery off"), DIFFERENT)?)?;
    let mended = document(&own.run(lossy, 0)?)?;
    if mended["holds"] != true {
        return Err("what was lost and recovered makes a difference".to_owned());
    }
    let share = |name: &str| found[name].as_u64().unwrap_or_default() as f64;
    Ok(format!(
        "replicas that lose 10% of {} give another answer to {} of them, and to none where they recover what they lost",
        plural(own.packets as u64, "packet"),
        percent(share("different") / share("packets").max(1.0))
    ))
}

fn document(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("what it wrote is no JSON: {error}"))
}
