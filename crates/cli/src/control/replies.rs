//! What a run of a chain answers to each request.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::server::{Controlled, Reply};
use super::sets::Expiring;
use super::subject::Subject;
use super::words::{Answer, Request, filter_of};

/// Longer than anybody waits, seconds.
const YEAR: u64 = 366 * 86_400;

impl Controlled for Subject {
    fn wait(&self) {
        Subject::wait(self);
    }

    fn expiring(self: &Arc<Self>) -> Option<Expiring> {
        Some(Expiring::start(self))
    }

    fn reply(self: &Arc<Self>, request: Request) -> Reply {
        let subject = self;
        let answer = match request {
            Request::Status => Answer { status: subject.status(), ..Answer::done() },
            Request::Reload { name, text } => match subject.reload(&name, &text) {
                Ok(report) => Answer::reloaded(&report),
                Err(why) => Answer::refused(why),
            },
            Request::Cores { cores } => Answer::told(subject.cores(cores)),
            Request::Move { entry, core } => Answer::told(subject.put(entry, core, false)),
            Request::Pin { entry, core } => Answer::told(subject.put(entry, core, true)),
            Request::Unpin { entry } => Answer::told(subject.unpin(entry)),
            Request::Why { flow } => match subject.why(flow.as_ref()) {
                Ok(why) => Answer { why: Some(Box::new(why)), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Request::Tune { set } => match subject.tune(set.as_ref()) {
                Ok(tunables) => Answer { tunables: Some(tunables), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Request::Set { name, add, remove, seconds } => {
                let lasts = seconds.map(|seconds| Duration::from_secs(seconds.min(YEAR)));
                match subject.change_set(&name, &add, &remove, lasts) {
                    Ok((told, report)) => {
                        let reload = report.and_then(|report| serde_json::to_value(report).ok());
                        Answer { told: Some(told), reload, ..Answer::done() }
                    }
                    Err(why) => Answer::refused(why),
                }
            }
            Request::Sets { name, most } => match subject.sets(name.as_deref(), most) {
                Ok(sets) => Answer { sets: Some(sets), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Request::Backend { name, service, change } => {
                match subject.change_backends(&name, service.as_deref(), change) {
                    Ok((told, report)) => {
                        let reload = report.and_then(|report| serde_json::to_value(report).ok());
                        Answer { told: Some(told), reload, ..Answer::done() }
                    }
                    Err(why) => Answer::refused(why),
                }
            }
            Request::Backends { name } => match subject.backends(name.as_deref()) {
                Ok(backends) => Answer { backends: Some(backends), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Request::Table { .. } | Request::Tables { .. } => Answer::refused(
                "tables are of programs in P4 (--backend xdp), and this is a chain: `ctl set` changes its sets",
            ),
            Request::Stop => {
                subject.progress.stop.store(true, Ordering::Relaxed);
                Answer::done()
            }
            Request::Trace { filter, program, count, seconds } => {
                let traces = filter_of(&filter, &program).and_then(|filter| subject.trace(filter, count));
                let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(YEAR)));
                match traces {
                    Ok(traces) => {
                        let subject = Arc::clone(subject);
                        return Reply::Lines(Box::new(move |stream| {
                            stream.trace(&subject, &traces, count, until)
                        }));
                    }
                    Err(why) => Answer::refused(why),
                }
            }
            Request::Drops { per_second, seconds } => {
                let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(YEAR)));
                match subject.tap.start(per_second) {
                    Ok(tapped) => {
                        let subject = Arc::clone(subject);
                        return Reply::Lines(Box::new(move |stream| stream.drops(&subject, &tapped, until)));
                    }
                    Err(taken) => Answer::refused(taken),
                }
            }
            Request::Log { per_second, seconds } => {
                let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(YEAR)));
                match subject.log.start(per_second) {
                    Ok(tapped) => {
                        let subject = Arc::clone(subject);
                        return Reply::Lines(Box::new(move |stream| stream.log(&subject, &tapped, until)));
                    }
                    Err(taken) => Answer::refused(taken),
                }
            }
            Request::Rules => match subject.rules() {
                Ok(rules) => Answer { rules: Some(rules), ..Answer::done() },
                Err(why) => Answer::refused(why),
            },
            Request::KillFlows { filter } => Answer::told(subject.kill(&filter)),
            Request::Flows { filter, limit } => match subject.flows(&filter) {
                Ok((mut flows, wanted)) => {
                    let subject = Arc::clone(subject);
                    return Reply::Lines(Box::new(move |stream| {
                        stream.flows(&subject, &mut flows, &wanted, limit.unwrap_or(u64::MAX))
                    }));
                }
                Err(why) => Answer::refused(why),
            },
        };
        answer.into()
    }
}
