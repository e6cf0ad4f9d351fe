//! The web page of a run, while it goes on.

use std::net::TcpListener;
use std::sync::Arc;

use clap::Args;
use dashboard::{Dashboard, Hosts, Inspect};
use telemetry::Telemetry;

use crate::args::Address;
use crate::failure::Failure;

#[derive(Args)]
pub struct WebArgs {
    /// Show in a browser how the run goes on, at http://HOST:PORT/, while it does; port 0 is any that is free. Addresses
    /// that other machines reach take --web-anyone
    #[arg(long, value_name = "HOST:PORT")]
    pub web: Option<Address>,
    /// Let other machines look, too: anyone who reaches the address can read the page, which then shows
    /// counters alone, and no flows. There is no password and no TLS
    #[arg(long, requires = "web")]
    pub web_anyone: bool,
}

impl WebArgs {
    /// Takes the address, which may need rights that are given up before anybody is answered.
    pub fn listen(&self) -> Result<Option<TcpListener>, Failure> {
        let Some(address) = &self.web else { return Ok(None) };
        if !address.first().ip().is_loopback() && !self.web_anyone {
            return Err(Failure::usage(format!(
                "--web {address}: other machines reach this address, and the page has no password\n\
                 Give 127.0.0.1, and look from afar by `ssh -L`; or add --web-anyone, if all who reach it may look."
            )));
        }
        address.listen("show a page", "127.0.0.1:8080").map(Some)
    }

    /// Answers each client that connects to `listener`, as long as what it returns is held, and says where. What the page asks beside
    /// counters goes to `inspect`.
    pub fn serve(
        &self,
        listener: Option<TcpListener>,
        telemetry: Option<&Arc<Telemetry>>,
        inspect: Option<Arc<dyn Inspect>>,
    ) -> Result<Option<Dashboard>, Failure> {
        let (Some(listener), Some(telemetry), Some(address)) = (listener, telemetry, &self.web) else {
            return Ok(None);
        };
        let hosts = Hosts::of(&address.to_string());
        // Flows say who talks with whom, which is not for all who may know how much there is.
        let inspect = inspect.filter(|_| !self.web_anyone);
        let dashboard =
            Dashboard::on(listener, Arc::clone(telemetry), hosts, inspect).map_err(Failure::defect)?;
        eprintln!("page at http://{}/", dashboard.address());
        Ok(Some(dashboard))
    }
}
