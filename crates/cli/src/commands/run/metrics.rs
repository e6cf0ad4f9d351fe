//! Metrics of a run, while it goes on.

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
    address.listen("tell metrics", "127.0.0.1:9100")
}

/// Answers each client that connects to `listener` with the metrics.
pub fn serve_on(listener: TcpListener, telemetry: &Arc<Telemetry>) -> Result<MetricsServer, Failure> {
    let server = MetricsServer::on(listener, Arc::clone(telemetry)).map_err(Failure::defect)?;
    eprintln!("metrics at http://{}/metrics", server.address());
    Ok(server)
}
