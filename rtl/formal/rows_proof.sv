// Packets with rows in memories are those with rows in registers, byte by byte, with gaps and back-pressure anywhere: one `prepend` with `history`
// beside another one with `rows`. Beats of 16 bytes, two items of 27, of which one lies in three words, prefixes of 108.
module rows_proof (
    input wire clk,
    input wire start,
    input wire is_alone,
    input wire [215:0] item,
    input wire beat_valid,
    input wire [127:0] beat,
    input wire [7:0] beat_bytes,
    input wire beat_last,
    input wire out_ready
);

  localparam int WIDTH = 16;
  localparam int ITEM = 27;
  localparam int PREFIX = 108;
  localparam logic [63:0] LAYOUT = 64'h800000000003ffff;

  logic is_reset = 1;
  wire is_clear;
  wire advance;
  wire may_start;
  assign may_start = start && is_clear && !is_reset;

  // In registers, and what leaves two cycles later.
  wire ends;
  wire [PREFIX*8-1:0] prefix;
  history #(.CORES(3), .LAYOUT(LAYOUT), .ITEM(ITEM), .HAS_ETHERNET(1), .PREFIX(PREFIX)) history (
      .clk(clk), .resetn(!is_reset), .in_valid(ends && !is_alone), .in(item), .time_ns(64'd0), .refused(7'd0), .is_flush(is_alone), .core(16'd0), .port(16'd0), .turn(32'd0),
      .prefix(prefix)
  );
  wire is_running;
  wire beat_ready;
  wire valid;
  wire [WIDTH*8-1:0] data;
  wire [7:0] bytes;
  wire last;
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) prepend (
      .clk(clk), .resetn(!is_reset), .start(may_start), .is_alone(is_alone), .prefix(prefix), .may_end(1'b1), .is_running(is_running), .ends(ends),
      .beat_valid(beat_valid), .beat_ready(beat_ready), .beat(beat), .beat_bytes(beat_bytes), .beat_last(beat_last),
      .out_valid(valid), .out_ready(advance), .out(data), .out_bytes(bytes), .out_last(last), .has_prefix(), .index()
  );
  logic [1:0] valids;
  logic [WIDTH*8-1:0] data_1;
  logic [WIDTH*8-1:0] data_2;
  always_ff @(posedge clk) begin
    if (is_reset) valids <= 0;
    else if (advance) valids <= {valids[0], valid};
    if (advance) {data_2, data_1} <= {data_1, data};
  end

  // In memories.
  wire [PREFIX*8-1:0] fixed;
  wire ends_too;
  history #(.CORES(3), .LAYOUT(LAYOUT), .ITEM(ITEM), .HAS_ETHERNET(1), .ROWS_IN_RAM(1), .PREFIX(PREFIX)) head (
      .clk(clk), .resetn(!is_reset), .in_valid(ends_too && !is_alone), .in(item), .time_ns(64'd0), .refused(7'd0), .is_flush(is_alone),
      .core(16'd0), .port(16'd0), .turn(32'd0), .prefix(fixed)
  );
  wire in_valid;
  wire [WIDTH*8-1:0] in;
  wire [7:0] in_bytes;
  wire in_last;
  wire has_prefix;
  wire [15:0] index;
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) without (
      .clk(clk), .resetn(!is_reset), .start(may_start), .is_alone(is_alone), .prefix(fixed), .may_end(1'b1), .is_running(), .ends(ends_too),
      .beat_valid(beat_valid), .beat_ready(), .beat(beat), .beat_bytes(beat_bytes), .beat_last(beat_last),
      .out_valid(in_valid), .out_ready(advance), .out(in), .out_bytes(in_bytes), .out_last(in_last), .has_prefix(has_prefix), .index(index)
  );
  wire out_valid;
  wire [WIDTH*8-1:0] out;
  rows #(.WIDTH(WIDTH), .RING(2), .ITEM(ITEM), .RING_AT(54)) rows (
      .clk(clk), .resetn(!is_reset), .is_clear(is_clear), .item_valid(ends_too && !is_alone), .item(item),
      .in_valid(in_valid), .in_ready(advance), .in(in), .in_bytes(in_bytes), .in_last(in_last), .in_core(8'd0),
      .has_prefix(has_prefix), .index(index),
      .out_valid(out_valid), .out_ready(out_ready), .out(out), .out_bytes(), .out_last(), .out_core()
  );

  // What the modules may rely on.
  logic was_inside = 0;
  logic alone_before = 0;
  always_ff @(posedge clk) begin
    was_inside <= !is_reset && is_running && !ends;
    alone_before <= is_alone;
  end
  always_comb begin
    assume (beat_bytes >= 1 && beat_bytes <= WIDTH);
    if (!beat_last) assume (beat_bytes == WIDTH);
    if (was_inside) assume (start && is_alone == alone_before);
  end

  always_ff @(posedge clk) begin
    is_reset <= 0;
    if (!is_reset) begin
      assert (out_valid == valids[1]);
      if (out_valid) assert (out == data_2);
    end
  end

endmodule
