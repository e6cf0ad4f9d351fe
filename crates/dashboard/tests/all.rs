//! Tests of the dashboard over sockets, and of its page: built anew, and looked at in a browser.

mod browser;
mod built;
mod made_up;
mod server;
