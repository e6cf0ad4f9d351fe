//! How backends are to be checked. The balancer says it, and a run on interfaces does it.

use core::net::SocketAddr;
use core::time::Duration;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{Check, OptionError};

use super::options::{BackendOptions, CheckBy, Options, ServiceOptions};
use super::vip::ServicePort;

/// The shortest interval: so that a run is not busy with checks.
const INTERVAL_MIN_MS: u32 = 50;
const TIMES_MAX: u32 = 100;

/// By service and backend, as the chain file has them: how each is checked, if it is.
pub(super) type Checks = Vec<Vec<Option<Check>>>;

pub(super) fn checks(options: &Options) -> Result<Checks, OptionError> {
    let Options { check_interval_ms, check_timeout_ms, check_rise, check_fall, .. } = *options;
    let wrong = |option, message| Err(OptionError { option, message });
    if check_interval_ms < INTERVAL_MIN_MS {
        return wrong("check_interval_ms", format!("must be at least {INTERVAL_MIN_MS}"));
    }
    if !(1..=check_interval_ms).contains(&check_timeout_ms) {
        return wrong(
            "check_timeout_ms",
            format!("must be 1 to {check_interval_ms}, the time from one check to the next"),
        );
    }
    for (option, times) in [("check_rise", check_rise), ("check_fall", check_fall)] {
        if !(1..=TIMES_MAX).contains(&times) {
            return wrong(option, format!("must be 1 to {TIMES_MAX}"));
        }
    }
    let of_service = |service: &ServiceOptions| {
        let check = |(number, backend): (usize, &BackendOptions)| {
            let Some(by) = &service.check else { return Ok(None) };
            let at = place(service, backend).map_err(|message| OptionError {
                option: "services",
                message: format!(
                    "has a service {} with a backend, number {number}, that {message}",
                    service.vip
                ),
            })?;
            let http = if let CheckBy::Http(http) = by { Some(http.clone()) } else { None };
            let ms = |ms: u32| Duration::from_millis(ms.into());
            let (interval, timeout) = (ms(check_interval_ms), ms(check_timeout_ms));
            Ok(Some(Check { at, http, interval, timeout, rise: check_rise, fall: check_fall }))
        };
        (1..).zip(&service.backends).map(check).collect()
    };
    options.services.iter().map(of_service).collect()
}

/// Where a backend is checked, or why it cannot be.
fn place(service: &ServiceOptions, backend: &BackendOptions) -> Result<SocketAddr, String> {
    if let Some(at) = backend.check_at {
        let is_nobodys = at.port() == 0 || at.ip().is_unspecified() || at.ip().is_multicast();
        return if is_nobodys { Err(format!("is to be checked at {at}, which is nobody's")) } else { Ok(at) };
    }
    let Some(address) = backend.address else {
        return Err(
            "has a MAC address alone and cannot be checked there; give it `check_at = \"192.0.2.7:80\"`"
                .into(),
        );
    };
    match (backend.port, service.port) {
        (Some(port), _) | (None, ServicePort::One(port)) => Ok(SocketAddr::new(address, port)),
        (None, ServicePort::Any) => {
            Err("has no port at which it can be checked; give it `check_at = \"192.0.2.7:80\"`".into())
        }
    }
}
