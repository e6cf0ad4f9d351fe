//! The pins of a sequencer in hardware, and its name.

/// The ports of `rtl/sequencer/sequencer.sv`, and how each is declared.
pub const PORTS: [(&str, &str); 14] = [
    ("clk", "input  wire              "),
    ("resetn", "input  wire              "),
    ("s_axis_tvalid", "input  wire              "),
    ("s_axis_tready", "output wire              "),
    ("s_axis_tdata", "input  wire [WIDTH*8-1:0]"),
    ("s_axis_tkeep", "input  wire [WIDTH-1:0]  "),
    ("s_axis_tlast", "input  wire              "),
    ("s_axis_tuser", "input  wire [63:0]       "),
    ("m_axis_tvalid", "output wire              "),
    ("m_axis_tready", "input  wire              "),
    ("m_axis_tdata", "output wire [WIDTH*8-1:0]"),
    ("m_axis_tkeep", "output wire [WIDTH-1:0]  "),
    ("m_axis_tlast", "output wire              "),
    ("m_axis_tdest", "output wire [7:0]        "),
];

/// Ports in the head of a module.
pub fn declared(ports: &[(&str, &str)]) -> String {
    let one = |(name, kind): &(&str, &str)| format!("    {kind} {name}");
    ports.iter().map(one).collect::<Vec<_>>().join(",\n")
}

/// Ports that go to ports of the same names.
pub fn connected(ports: &[(&str, &str)]) -> String {
    let one = |(name, _): &(&str, &str)| format!("      .{name}({name})");
    ports.iter().map(one).collect::<Vec<_>>().join(",\n")
}

/// `sequencer_` and the chain's name; what is no letter or digit becomes `_`.
pub fn module_name(chain: &str) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("sequencer_{}", chain.chars().map(of).collect::<String>())
}
