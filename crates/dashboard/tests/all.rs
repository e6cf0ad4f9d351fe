//! Tests of the dashboard over sockets, of its page (built anew, and looked at in a browser), and of what `packaging/` has.

#[path = "browser.rs"]
mod browser;
#[path = "built.rs"]
mod built;
#[path = "chromium.rs"]
mod chromium;
#[path = "made_up.rs"]
mod made_up;
#[path = "prometheus.rs"]
mod prometheus;
#[path = "server.rs"]
mod server;
