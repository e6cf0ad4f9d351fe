//! `paceline top`: how a run goes on, seen from another terminal.

mod reading;
mod screen;
mod strategy;
mod view;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use engine::Registry;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use telemetry::{FetchError, fetch};

use crate::args::Address;
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED};
use crate::output::{self, plural};

use reading::Reading;
use screen::Screen;
use view::View;

#[derive(Args)]
pub struct TopArgs {
    /// Where the run tells its metrics: what it was given as --metrics
    #[arg(value_name = "HOST:PORT")]
    pub address: Address,
    /// Time between two looks
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = interval_seconds)]
    pub interval: f64,
    /// Look once, and write what is seen to standard output as plain text
    #[arg(long)]
    pub once: bool,
}

fn interval_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=60.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0.1 to 60".to_owned()) }
}

/// How long a run may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest time without a look at the keyboard's and the system's wishes.
const NAP: Duration = Duration::from_millis(100);

pub fn command(args: &TopArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let (address, first) = find(&args.address)?;
    if args.once {
        let screen =
            Screen { address: args.address.to_string(), view: View::new(None, &first), ..Screen::default() };
        output::print(&screen.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "standard output is no terminal\nUse `paceline top --once` for plain text.",
        ));
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    // A request to terminate; Ctrl-C is a key here.
    let _ = ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed));
    let mut watch = Watch {
        address,
        interval: Duration::from_secs_f64(args.interval),
        screen: Screen {
            address: args.address.to_string(),
            view: View::new(None, &first),
            is_live: true,
            ..Screen::default()
        },
        before: first,
        is_stopped,
    };
    match watch.on_terminal()? {
        End::Quit => Ok(ExitCode::SUCCESS),
        End::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        End::RunEnded => {
            output::print(&watch.last_words())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The first address that answers, and what it says.
fn find(address: &Address) -> Result<(SocketAddr, Reading), Failure> {
    let mut failed = None;
    for found in address.all() {
        match look(*found) {
            Ok(reading) => return Ok((*found, reading)),
            Err(error) => failed = Some(error),
        }
    }
    let error = failed.expect("an address is one address or more");
    Err(Failure::usage(format!("{error}\nStart a run with `--metrics {address}`, or look at one that runs."))
        .coded(Code::NoAnswer))
}

fn look(address: SocketAddr) -> Result<Reading, FetchError> {
    let text = fetch(address, PATIENCE)?;
    Reading::parse(&text).map_err(|what| FetchError::Other { address, what })
}

/// Why watching ended.
enum End {
    Quit,
    Interrupted,
    RunEnded,
}

struct Watch {
    address: SocketAddr,
    interval: Duration,
    screen: Screen,
    /// What was seen at the last look.
    before: Reading,
    is_stopped: Arc<AtomicBool>,
}

impl Watch {
    /// Takes the terminal, and gives it back however this ends; a panic gives it back, too.
    fn on_terminal(&mut self) -> Result<End, Failure> {
        let end = ratatui::try_init().and_then(|mut terminal| self.until_end(&mut terminal));
        ratatui::restore();
        end.map_err(terminal_failed)
    }

    fn until_end(&mut self, terminal: &mut DefaultTerminal) -> std::io::Result<End> {
        let mut next = Instant::now() + self.interval;
        loop {
            terminal.draw(|frame| frame.render_widget(&self.screen, frame.area()))?;
            let left = next.saturating_duration_since(Instant::now());
            if event::poll(left.min(NAP))? {
                let Some(end) = self.heed(&event::read()?) else { continue };
                return Ok(end);
            }
            if self.is_stopped.load(Ordering::Relaxed) {
                return Ok(End::Interrupted);
            }
            if Instant::now() >= next {
                if !self.look_again() {
                    return Ok(End::RunEnded);
                }
                next = Instant::now() + self.interval;
            }
        }
    }

    /// Does what the user wants; an end, if it is that.
    fn heed(&mut self, event: &Event) -> Option<End> {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
            return None;
        };
        let first = &mut self.screen.first_core;
        match code {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Some(End::Interrupted),
            KeyCode::Char('q') | KeyCode::Esc => return Some(End::Quit),
            KeyCode::Up => *first = first.saturating_sub(1),
            KeyCode::Down => *first = (*first + 1).min(self.screen.view.cores.len().saturating_sub(1)),
            _ => (),
        }
        None
    }

    /// Whether the run still goes on.
    fn look_again(&mut self) -> bool {
        match look(self.address) {
            Ok(reading) => {
                self.screen.view = View::new(Some(&self.before), &reading);
                self.screen.note = None;
                self.before = reading;
                true
            }
            Err(error @ FetchError::Late { .. }) => {
                self.screen.note = Some(format!("{error}: this is what was seen before"));
                true
            }
            Err(FetchError::Gone { .. } | FetchError::Other { .. }) => false,
        }
    }

    fn last_words(&self) -> String {
        let Reading { chain, seconds, .. } = &self.before;
        let packets = plural(self.before.packets() as u64, "packet");
        format!(
            "the run at {} has ended; last seen: {chain}, {packets} in {seconds:.1} s\n",
            self.screen.address
        )
    }
}

fn terminal_failed(error: std::io::Error) -> Failure {
    Failure::usage(format!("the terminal does not do what it should: {error}\nUse `paceline top --once`."))
}

#[cfg(test)]
mod tests;
