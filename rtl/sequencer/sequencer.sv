// Puts the history that a replicated chain needs before each packet, and sends packets to cores in turn: SCR §3.3, as
// `paceline sequence` does, version 1. docs/rtl.md draws it.
module sequencer #(
    // Bytes of a beat: 64 or 128.
    parameter int WIDTH = 64,
    // Cores that get packets in turn: 1 to 64.
    parameter int CORES = 8,
    // Bit i: an item of history has byte i of the headers (docs/history-format.md, "Items of version 1"). Bit 63 counts as 1.
    parameter logic [63:0] HEADER_BYTES = 64'h8000000000000000,
    // 1 if a prefix begins with an outer Ethernet header, else 0.
    parameter int HAS_ETHERNET = 0,
    // So many cycles after the last packet each core gets a flush.
    parameter int FLUSH_CYCLES = 65536,
    // Beats that wait to go out; a power of two, 16 or more.
    parameter int BUFFER = 256,
    // Frames that wait to go out; a power of two, 2 or more.
    parameter int FRAMES = 64,
    // The rows of the history: 0 in registers, 1 in block RAM, 2 in RAM of look-up tables. In RAM a packet leaves 2 cycles later.
    parameter int ROWS_IN_RAM = 0
) (
    input  wire                 clk,
    // Synchronous, active low. After it no packet has come: the history is empty, the next number is 0, the next core is 0.
    input  wire                 resetn,

    // Frames without their check sequence, byte i in bits 8i + 7 to 8i. All beats but a frame's last are full, and its
    // last has a byte or more, from byte 0 on. `tuser` of the first beat: when the frame came, ns since the Unix epoch.
    // A frame has at most 131,071 bytes.
    input  wire                 s_axis_tvalid,
    output wire                 s_axis_tready,
    input  wire [WIDTH*8-1:0]   s_axis_tdata,
    input  wire [WIDTH-1:0]     s_axis_tkeep,
    input  wire                 s_axis_tlast,
    input  wire [63:0]          s_axis_tuser,

    // Packets behind their history, and flushes. `tdest`: the core.
    output wire                 m_axis_tvalid,
    input  wire                 m_axis_tready,
    output wire  [WIDTH*8-1:0]  m_axis_tdata,
    output wire  [WIDTH-1:0]    m_axis_tkeep,
    output wire                 m_axis_tlast,
    output wire  [7:0]          m_axis_tdest
);

  localparam logic [63:0] MASK = HEADER_BYTES | 64'h8000000000000000;
  function automatic int ones(input logic [63:0] bits);
    ones = 0;
    for (int i = 0; i < 64; i++) if (bits[i]) ones = ones + 1;
  endfunction
  localparam int KEPT = ones(MASK);
  localparam int ITEM = 8 + KEPT;

  wire       beat_in;
  wire       beat_in_first;
  wire [7:0] beat_in_bytes;
  wire              parsed_valid;
  parsed::headers_t headers;
  parser #(.WIDTH(WIDTH)) parser (
      .clk(clk), .resetn(resetn),
      .beat_valid(beat_in), .beat(s_axis_tdata), .beat_bytes(beat_in_bytes), .beat_first(beat_in_first), .beat_last(s_axis_tlast),
      .out_valid(parsed_valid), .out(headers)
  );

  wire [ITEM*8-1:0] packed_item;
  item #(.HEADER_BYTES(MASK), .ITEM(ITEM)) item (.headers(headers), .time_ns(64'd0), .out(packed_item));

  dispatch #(
      .WIDTH(WIDTH), .CORES(CORES), .LAYOUT(MASK), .KEPT(KEPT), .HAS_ETHERNET(HAS_ETHERNET), .FLUSH_CYCLES(FLUSH_CYCLES), .BUFFER(BUFFER),
      .FRAMES(FRAMES), .ROWS_IN_RAM(ROWS_IN_RAM)
  ) dispatch (
      .clk(clk), .resetn(resetn),
      .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready), .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep),
      .s_axis_tlast(s_axis_tlast), .s_axis_tuser(s_axis_tuser), .s_axis_tid(16'd0),
      .beat_in(beat_in), .beat_in_first(beat_in_first), .beat_in_bytes(beat_in_bytes),
      .kept_valid(parsed_valid), .kept_in(packed_item[ITEM*8-1:64]),
      .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready), .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep),
      .m_axis_tlast(m_axis_tlast), .m_axis_tdest(m_axis_tdest)
  );

endmodule
