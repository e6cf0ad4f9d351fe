//! The web page of a run, while it goes on.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dashboard::{Dashboard, Hosts, Inspect, Token};
use telemetry::Telemetry;

use crate::args::Address;
use crate::failure::Failure;
use crate::input::read_text;

#[derive(Args)]
pub struct WebArgs {
    /// Show in a browser how the run goes on, at http://HOST:PORT/, while it does; port 0 is any that is free. Addresses
    /// that other machines reach take --web-anyone
    #[arg(long, value_name = "HOST:PORT")]
    pub web: Option<Address>,
    /// Let other machines look, too: anyone who reaches the address can read the page, which then shows
    /// counters alone: no flows, no traces. There is no password and no TLS
    #[arg(long, requires = "web")]
    pub web_anyone: bool,
    /// Let the page reload the chain, for who has the token that the run says at its start; on interfaces
    #[arg(long, requires = "web", conflicts_with = "web_anyone")]
    pub web_control: bool,
    /// Read the token from this file instead, and say none: 16 characters or more
    #[arg(long, value_name = "FILE", requires = "web_control")]
    pub web_token_file: Option<PathBuf>,
}

/// A page that is not shown yet: where it listens, and the token for who changes something.
pub struct Listening {
    listener: TcpListener,
    token: Option<Token>,
}

impl WebArgs {
    /// Takes the address, which may need rights that are given up before anybody is answered.
    pub fn listen(&self) -> Result<Option<Listening>, Failure> {
        let Some(address) = &self.web else { return Ok(None) };
        if !address.first().ip().is_loopback() && !self.web_anyone {
            return Err(Failure::usage(format!(
                "--web {address}: other machines reach this address, and the page has no password\n\
                 Give 127.0.0.1, and look from afar by `ssh -L`; or add --web-anyone, if all who reach it may look."
            )));
        }
        let token = self.token()?;
        let listener = address.listen("show a page", "127.0.0.1:8080")?;
        Ok(Some(Listening { listener, token }))
    }

    /// The token of the file, or another one for each run.
    fn token(&self) -> Result<Option<Token>, Failure> {
        if !self.web_control {
            return Ok(None);
        }
        let (token, from) = match &self.web_token_file {
            Some(path) => (read_text("the token file", path)?.trim().to_owned(), path.display().to_string()),
            None => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(Failure::defect)?;
                let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                (token, "the system's randomness".to_owned())
            }
        };
        let token = Token::new(&token).map_err(|why| {
            Failure::usage(format!(
                "the token of {from} is none: {why}\nWrite another, as with: openssl rand -hex 16 > FILE"
            ))
        });
        token.map(Some)
    }

    /// Answers each client that connects to `listener`, as long as what it returns is held, and says where. What the page asks beside
    /// counters goes to `inspect`.
    pub fn serve(
        &self,
        listening: Option<Listening>,
        telemetry: Option<&Arc<Telemetry>>,
        inspect: Option<Arc<dyn Inspect>>,
    ) -> Result<Option<Dashboard>, Failure> {
        let (Some(listening), Some(telemetry), Some(address)) = (listening, telemetry, &self.web) else {
            return Ok(None);
        };
        let hosts = Hosts::of(&address.to_string());
        // Flows and traces say who talks with whom, which is not for all who may know how much there is.
        let inspect = inspect.filter(|_| !self.web_anyone);
        let Listening { listener, token } = listening;
        let said = token.as_ref().filter(|_| self.web_token_file.is_none()).map(Token::text);
        let said = said.map(|token| format!("token of the page: {token}"));
        let dashboard = Dashboard::on(listener, Arc::clone(telemetry), hosts, (inspect, token));
        let dashboard = dashboard.map_err(Failure::defect)?;
        eprintln!("page at http://{}/", dashboard.address());
        said.iter().for_each(|line| eprintln!("{line}"));
        Ok(Some(dashboard))
    }
}
