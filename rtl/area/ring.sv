// What Table 2 of the SCR paper is about, for area and clock alone: rows of history, index, prefix, and the data path that
// moves a packet behind it; no parser, no buffers. Items have 112 bits: 64 of time, 48 of headers.
module ring #(
    // Bytes of a beat.
    parameter int WIDTH = 128,
    // Rows. The format ends at 63.
    parameter int ROWS = 16
) (
    input  wire               clk,
    // Synchronous, active low. After it the ring is empty.
    input  wire               resetn,
    // The item of the packet that goes out, and when that came.
    input  wire [47:0]        headers,
    input  wire [63:0]        time_ns,

    input  wire               s_axis_tvalid,
    output wire               s_axis_tready,
    input  wire [WIDTH*8-1:0] s_axis_tdata,
    input  wire [7:0]         s_axis_tbytes,
    input  wire               s_axis_tlast,

    output logic              m_axis_tvalid,
    input  wire               m_axis_tready,
    output logic [WIDTH*8-1:0] m_axis_tdata,
    output logic [7:0]        m_axis_tbytes,
    output logic              m_axis_tlast
);

  localparam int ITEM = 14;
  localparam int PREFIX = 40 + ROWS * ITEM;

  wire ends;
  wire [PREFIX*8-1:0] prefix;
  history #(.CORES(ROWS + 1), .MASK(64'h820000000000f000), .ITEM(ITEM), .HAS_ETHERNET(0), .PREFIX(PREFIX)) history (
      .clk(clk), .resetn(resetn), .in_valid(ends), .in({headers, time_ns}),
      .time_ns(time_ns), .refused(7'd0), .is_flush(1'b0), .core(16'd0), .prefix(prefix)
  );

  wire is_running;
  wire out_valid;
  wire out_ready;
  wire [WIDTH*8-1:0] out;
  wire [7:0] out_bytes;
  wire out_last;
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) prepend (
      .clk(clk), .resetn(resetn), .start(s_axis_tvalid), .is_alone(1'b0), .prefix(prefix), .may_end(1'b1),
      .is_running(is_running), .ends(ends),
      .beat_valid(s_axis_tvalid), .beat_ready(s_axis_tready), .beat(s_axis_tdata), .beat_bytes(s_axis_tbytes),
      .beat_last(s_axis_tlast),
      .out_valid(out_valid), .out_ready(out_ready), .out(out), .out_bytes(out_bytes), .out_last(out_last)
  );

  assign out_ready = !m_axis_tvalid || m_axis_tready;
  always_ff @(posedge clk) begin
    if (!resetn) m_axis_tvalid <= 0;
    else if (out_ready) m_axis_tvalid <= out_valid;
    if (out_ready) begin
      m_axis_tdata <= out;
      m_axis_tbytes <= out_bytes;
      m_axis_tlast <= out_last;
    end
  end

endmodule
