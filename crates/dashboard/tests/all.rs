//! Tests of the dashboard over sockets, of its page (built anew, and looked at in a browser), and of what `packaging/` has.

mod browser;
mod built;
mod made_up;
mod prometheus;
mod server;
