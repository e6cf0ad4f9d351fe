//! Metrics of a run, while it goes on.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

use telemetry::{MetricsServer, Telemetry};

use crate::args::Address;
use crate::failure::Failure;

/// Tells metrics at `address` as long as what it returns is held, and says where.
pub fn serve(address: &Address, telemetry: &Arc<Telemetry>) -> Result<MetricsServer, Failure> {
    serve_on(listen(address)?, telemetry)
}

/// Takes the address, which may need rights that are given up before anybody is answered.
pub fn listen(address: &Address) -> Result<TcpListener, Failure> {
    TcpListener::bind(address.first()).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::AddrInUse => {
                "Another program listens there. Choose another port, or 0 for any that is free."
            }
            _ => "Give an address of this machine, such as 127.0.0.1:9100.",
        };
        Failure::usage(format!("cannot tell metrics at {address}: {error}\n{help}"))
    })
}

/// Answers each client that connects to `listener` with the metrics.
pub fn serve_on(listener: TcpListener, telemetry: &Arc<Telemetry>) -> Result<MetricsServer, Failure> {
    let server = MetricsServer::on(listener, Arc::clone(telemetry)).map_err(Failure::defect)?;
    eprintln!("metrics at http://{}/metrics", server.address());
    Ok(server)
}
