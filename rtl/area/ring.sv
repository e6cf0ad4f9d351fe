// What Table 2 of the SCR paper is about, for area and clock alone: rows of history, index, prefix, and the data path that
// moves a packet behind it; no parser, no buffers. Items have 112 bits: 64 of time, 48 of headers.
module ring #(
    // Bytes of a beat.
    parameter int WIDTH = 128,
    // Rows. The format ends at 63.
    parameter int ROWS = 16,
    // Where they are: 0 in registers, 1 in block RAM, 2 in RAM of look-up tables.
    parameter int ROWS_IN_RAM = 0
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
  history #(.CORES(ROWS + 1), .LAYOUT(64'h820000000000f000), .ITEM(ITEM), .HAS_ETHERNET(0), .ROWS_IN_RAM(ROWS_IN_RAM), .PREFIX(PREFIX)) history (
      .clk(clk), .resetn(resetn), .in_valid(ends), .in({headers, time_ns}),
      .time_ns(time_ns), .refused(7'd0), .is_flush(1'b0), .core(16'd0), .port(16'd0), .turn(32'd0), .prefix(prefix)
  );

  wire is_clear;
  wire has_prefix;
  wire [15:0] index;
  wire is_running;
  wire out_valid;
  wire out_ready;
  wire [WIDTH*8-1:0] out;
  wire [7:0] out_bytes;
  wire out_last;
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) prepend (
      .clk(clk), .resetn(resetn), .start(s_axis_tvalid && is_clear), .is_alone(1'b0), .prefix(prefix), .may_end(1'b1),
      .is_running(is_running), .ends(ends),
      .beat_valid(s_axis_tvalid), .beat_ready(s_axis_tready), .beat(s_axis_tdata), .beat_bytes(s_axis_tbytes),
      .beat_last(s_axis_tlast),
      .out_valid(out_valid), .out_ready(out_ready), .out(out), .out_bytes(out_bytes), .out_last(out_last),
      .has_prefix(has_prefix), .index(index)
  );

  wire whole_valid;
  wire whole_ready;
  wire [WIDTH*8-1:0] whole;
  wire [7:0] whole_bytes;
  wire whole_last;
  generate
    if (ROWS_IN_RAM != 0) begin : g_rows
      rows #(.WIDTH(WIDTH), .RING(ROWS), .ITEM(ITEM), .RING_AT(40), .KIND(ROWS_IN_RAM)) rows (
          .clk(clk), .resetn(resetn), .is_clear(is_clear), .item_valid(ends), .item({headers, time_ns}),
          .in_valid(out_valid), .in_ready(out_ready), .in(out), .in_bytes(out_bytes), .in_last(out_last), .in_core(8'd0),
          .has_prefix(has_prefix), .index(index),
          .out_valid(whole_valid), .out_ready(whole_ready), .out(whole), .out_bytes(whole_bytes), .out_last(whole_last), .out_core()
      );
    end else begin : g_registers
      assign {whole_valid, whole, whole_bytes, whole_last} = {out_valid, out, out_bytes, out_last};
      assign {out_ready, is_clear} = {whole_ready, 1'b1};
    end
  endgenerate

  assign whole_ready = !m_axis_tvalid || m_axis_tready;
  always_ff @(posedge clk) begin
    if (!resetn) m_axis_tvalid <= 0;
    else if (whole_ready) m_axis_tvalid <= whole_valid;
    if (whole_ready) begin
      m_axis_tdata <= whole;
      m_axis_tbytes <= whole_bytes;
      m_axis_tlast <= whole_last;
    end
  end

endmodule
