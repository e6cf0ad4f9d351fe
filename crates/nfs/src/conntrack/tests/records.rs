//! The records of connections: Zeek's names and values, and verdicts that are the tracker's.

use std::string::ToString;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::properties::packet;
use super::*;
use crate::conntrack::{RECORDS_TITLE, Recorder};

fn recorder(options: &str) -> Recorder {
    let options = format!("gaps = \"strict\"\nrecords = 100\n{options}");
    Recorder::new(toml::from_str(&options).expect("options that parse")).expect("valid options")
}

fn lines(rig: &Rig<Recorder>) -> Vec<Value> {
    let tables = rig.report();
    let table = tables.iter().find(|table| table.title.starts_with(RECORDS_TITLE)).expect("records");
    assert_eq!(table.title, format!("{RECORDS_TITLE}{}", table.rows.len()));
    table.rows.iter().map(|row| serde_json::from_str(&row[0]).expect("JSON")).collect()
}

/// Packets a tenth of a second apart, as [`Talk::play`] has them.
fn play(packets: &[&str]) -> Rig<Recorder> {
    let (talk, mut rig) = (Talk::new(""), Rig::new(recorder("")));
    for (number, packet) in packets.iter().enumerate() {
        rig.packet(1_700_000_000_000_000_000 + number as u64 * 100_000_000, &talk.headers(packet));
    }
    rig
}

/// The record of the only connection among these.
fn record(packets: &[&str]) -> Value {
    let [line] = &lines(&play(packets))[..] else { panic!("one connection") };
    line.clone()
}

const OPEN: [&str; 3] = ["> S seq=100", "< SA seq=300 ack=101", "> A seq=101 ack=301"];

fn opened_and(more: &[&str]) -> Value {
    record(&[&OPEN[..], more].concat())
}

#[test]
fn a_whole_connection_is_as_zeek_has_it() {
    let record = opened_and(&[
        "> PA seq=101 ack=301 len=40",
        "< A seq=301 ack=141",
        "< PA seq=301 ack=141 len=1000",
        "< PA seq=301 ack=141 len=1000", // again: it does not count twice
        "> FA seq=141 ack=1301",
        "< FA seq=1301 ack=142",
        "> A seq=142 ack=1302",
    ]);
    let uid = record["uid"].as_str().expect("text");
    assert!(
        uid.len() == 18 && uid.starts_with('C') && uid.chars().all(|letter| letter.is_ascii_alphanumeric())
    );
    let expected = json!({
        "ts": 1_700_000_000.0, "uid": uid, "id.orig_h": "10.0.0.1", "id.orig_p": 4000, "id.resp_h": "192.0.2.1",
        "id.resp_p": 80, "proto": "tcp", "duration": 0.9, "orig_bytes": 40, "resp_bytes": 1000, "conn_state": "SF",
        "missed_bytes": 0, "history": "ShADadFf", "orig_pkts": 5, "orig_ip_bytes": 240, "resp_pkts": 5,
        "resp_ip_bytes": 2200, "ip_proto": 6,
    });
    assert_eq!(record, expected);
}

/// The table of Zeek's manual, as far as the tracker lets it come to pass.
#[test]
fn each_state_has_its_letters() {
    let state = |record: Value| {
        let word = |name: &str| record[name].as_str().unwrap_or_default().to_string();
        (word("conn_state"), word("history"))
    };
    let cases: [(&[&str], &str, &str); 7] = [
        (&["> S seq=100"], "S0", "S"),
        (&["> S seq=100", "< RA seq=0 ack=101"], "REJ", "Sr"),
        (&["> S seq=100", "> R seq=101"], "RSTOS0", "SR"),
        (&["> A seq=100 ack=7"], "OTH", "A"),
        (&["> A seq=100 ack=7", "< PA seq=7 ack=100 len=5"], "OTH", "Ad"),
        (&["> S seq=100", "< SA seq=300 ack=101"], "S1", "Sh"),
        (&["> S seq=100", "> FA seq=101 ack=1"], "S0", "S"),
    ];
    for (packets, conn_state, history) in cases {
        assert_eq!(state(record(packets)), (conn_state.to_string(), history.to_string()), "{packets:?}");
    }
    let cases: [(&[&str], &str, &str); 6] = [
        (&[], "S1", "ShA"),
        (&["> FA seq=101 ack=301"], "S2", "ShAF"),
        (&["< FA seq=301 ack=101"], "S3", "ShAf"),
        (&["> R seq=101"], "RSTO", "ShAR"),
        (&["< PA seq=301 ack=101 len=1", "< R seq=302"], "RSTR", "ShAdr"),
        (&["> FA seq=101 ack=301", "< FA seq=301 ack=102"], "SF", "ShAFf"),
    ];
    for (more, conn_state, history) in cases {
        assert_eq!(state(opened_and(more)), (conn_state.to_string(), history.to_string()), "{more:?}");
    }
}

#[test]
fn what_was_missed_is_counted_by_its_numbers() {
    let record = opened_and(&["> PA seq=1101 ack=301 len=100"]);
    assert_eq!((&record["orig_bytes"], &record["missed_bytes"]), (&json!(1100), &json!(1000)));
}

/// What goes on at the end says so; what ended does not, whether a packet ended it, time, or the next connection.
#[test]
fn what_goes_on_at_the_end_is_open() {
    assert_eq!(opened_and(&[])["open"], json!(true));
    assert_eq!(opened_and(&["> R seq=101"]).get("open"), None);
    let again = [&OPEN[..], &["> R seq=101", "> S seq=7000"]].concat();
    let rig = play(&again);
    let [first, second] = &lines(&rig)[..] else { panic!("two") };
    assert_eq!((&first["history"], first.get("open")), (&json!("ShAR"), None));
    assert_eq!((&second["history"], &second["open"]), (&json!("S"), &json!(true)));
    assert_ne!(first["uid"], second["uid"]);
    let mut rig = play(&["> S seq=100"]);
    rig.wait_until(1_700_000_200_000_000_000);
    assert_eq!(lines(&rig)[0].get("open"), None);
    // The tracker forgets at once a connection that its originator resets before an answer.
    let rig = play(&["> S seq=100", "> R seq=101", "> S seq=900"]);
    let histories: Vec<Value> = lines(&rig).into_iter().map(|line| line["history"].clone()).collect();
    assert_eq!(histories, ["SR", "S"]);
}

#[test]
fn datagrams_and_pings_have_records() {
    let mut rig = Rig::new(recorder(""));
    let udp = |from: (Addr, u16), to: (Addr, u16)| Headers {
        protocol: protocol::UDP,
        tcp_shape: 2 << 4,
        l3_len: 48,
        window: 0,
        ..tcp(from, to, 0)
    };
    rig.packet(1, &udp(CLIENT, SERVER));
    rig.packet(2, &udp(SERVER, CLIENT));
    rig.packet(3, &udp(CLIENT, (SERVER.0, 53)));
    rig.packet(4, &Headers { protocol: 50, tcp_shape: 0, ..tcp((CLIENT.0, 0), (SERVER.0, 0), 0) });
    let brief = |line: &Value| {
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_string();
        format!("{} {} {}{}", word("proto"), word("conn_state"), word("history"), line["orig_bytes"])
    };
    let brief: Vec<String> = lines(&rig).iter().map(brief).collect();
    assert_eq!(brief, ["udp SF Dd20", "udp S0 D20", "unknown_transport OTH 20"]);
}

/// When more end than there is room for, the largest stay, and the others are counted.
#[test]
fn records_are_bounded() {
    let mut rig = Rig::new(recorder("tcp_timeout_syn_sent = 1"));
    for port in 0..250u16 {
        let mut headers = tcp((CLIENT.0, port), SERVER, tcp_flags::SYN);
        headers.l3_len += port;
        rig.packet(u64::from(port), &headers);
    }
    rig.wait_until(3_000_000_000);
    let tables = rig.report();
    let table = tables.last().expect("records");
    assert_eq!(table.title, format!("{RECORDS_TITLE}100; 150 ended smaller, and found no room in `records`"));
    assert!(table.rows[0][0].contains("\"id.orig_p\":150"), "{:?}", table.rows[0]);
    let error = Recorder::new(toml::from_str("records = 1000001").expect("TOML")).expect_err("refused");
    assert_eq!(error.to_string(), "`records` must be 0 to 1000000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A record changes no verdict, and each packet that passes is in exactly one.
    #[test]
    fn verdicts_are_the_trackers(packets in prop::collection::vec(packet(), 0..60)) {
        let (mut plain, mut recording) = (Rig::new(conntrack("")), Rig::new(recorder("")));
        let (mut time_ns, mut passed) = (1_700_000_000_000_000_000, 0);
        for (gap_ns, _, headers) in &packets {
            time_ns += gap_ns;
            let verdict = plain.packet(time_ns, headers);
            prop_assert_eq!(recording.packet(time_ns, headers), verdict);
            passed += u64::from(verdict == Verdict::Forward);
        }
        let lines = lines(&recording);
        let count = |name: &str| lines.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
        prop_assert_eq!(count("orig_pkts") + count("resp_pkts"), passed);
    }
}
