// Puts a prefix of constant length before each frame: a beat a cycle, ceil((prefix + frame) / WIDTH) beats, none between
// two packets.
module prepend #(
    // Bytes of a beat.
    parameter int WIDTH = 64,
    // Bytes of a prefix, 40 or more.
    parameter int PREFIX = 40
) (
    input  wire                clk,
    // Synchronous, active low. After it no packet has begun.
    input  wire                resetn,

    // A packet may begin, and its prefix is `prefix` until it ends. `is_alone`: no frame is behind it.
    input  wire                start,
    input  wire                is_alone,
    input  wire [PREFIX*8-1:0] prefix,
    // Whether a packet may end.
    input  wire                may_end,
    // A packet has begun; with its first beat, too.
    output wire                is_running,
    // A packet's last beat goes out. For one cycle.
    output wire                ends,

    // The frame, beat by beat; all but the last are full, and the last has a byte or more.
    input  wire                beat_valid,
    output wire                beat_ready,
    input  wire [WIDTH*8-1:0]  beat,
    input  wire [7:0]          beat_bytes,
    input  wire                beat_last,

    // AXI-Stream, without a register: `out_valid` does not wait for `out_ready`.
    output wire                out_valid,
    input  wire                out_ready,
    output wire [WIDTH*8-1:0]  out,
    output wire [7:0]          out_bytes,
    output wire                out_last,
    // The beat has bytes of the prefix, from `index` * WIDTH on.
    output wire                has_prefix,
    output logic [15:0]        index
);

  // Beats that are all prefix, and bytes of prefix in the beat behind them.
  localparam int FULL = PREFIX / WIDTH;
  localparam int REST = PREFIX % WIDTH;
  localparam int ALONE = REST == 0 ? FULL - 1 : FULL;

  // The beat: 0 to FULL - 1 are prefix alone, at FULL the frame follows; then its last bytes may need one more.
  logic        is_first;
  logic        is_tail;
  logic [7:0]  tail_bytes;

  wire is_prefix;
  wire is_body;
  wire [7:0] body_bytes;
  wire goes_over;
  assign is_prefix = !is_tail && (index != 16'(FULL) || is_alone);
  assign is_body = !is_tail && !is_prefix;
  assign body_bytes = beat_bytes + 8'(REST);
  assign goes_over = {1'b0, beat_bytes} + 9'(REST) > 9'(WIDTH);

  assign is_running = start || index != 0 || is_tail || !is_first;
  assign out_last = is_tail || (is_alone ? index == 16'(ALONE) : is_body && beat_last && !goes_over);
  assign out_valid = is_running && (!is_body || beat_valid) && (!out_last || may_end);
  assign out_bytes = is_tail ? tail_bytes
      : is_alone && index == 16'(ALONE) ? 8'(PREFIX - ALONE * WIDTH)
      : is_body && beat_last && !goes_over ? body_bytes : 8'(WIDTH);
  assign beat_ready = is_running && is_body && out_ready && (!out_last || may_end);
  assign has_prefix = is_prefix || (is_body && is_first);
  assign ends = out_valid && out_ready && out_last;

  wire [(FULL+1)*WIDTH*8-1:0] padded;
  assign padded = {{((FULL+1)*WIDTH-PREFIX)*8{1'b0}}, prefix};
  wire [WIDTH*8-1:0] slices [FULL+1];
  generate
    for (genvar i = 0; i <= FULL; i++) begin : g_slice
      assign slices[i] = padded[WIDTH*8*i +: WIDTH*8];
    end
  endgenerate
  logic [WIDTH*8-1:0] slice;
  always_comb begin
    slice = '0;
    for (int i = 0; i <= FULL; i++) if (index == 16'(i)) slice = slices[i];
  end

  generate
    if (REST == 0) begin : g_even
      assign out = is_prefix ? slice : beat;
    end else begin : g_shifted
      // The last bytes of the frame's beat before.
      logic [REST*8-1:0] carry;
`ifdef FAULT_CARRY
      // Planted: what is carried over changes while nobody takes a beat.
      always_ff @(posedge clk) if (beat_valid) carry <= beat[WIDTH*8-1 -: REST*8];
`else
      always_ff @(posedge clk) if (beat_valid && beat_ready) carry <= beat[WIDTH*8-1 -: REST*8];
`endif
      assign out = is_prefix ? slice : {beat[(WIDTH-REST)*8-1:0], is_first ? slice[REST*8-1:0] : carry};
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (!resetn) begin
      index <= 0;
      is_first <= 1;
      is_tail <= 0;
    end else if (out_valid && out_ready) begin
      if (out_last) begin
        index <= 0;
        is_first <= 1;
        is_tail <= 0;
      end else begin
        if (is_prefix) index <= index + 16'd1;
        if (is_body) is_first <= 0;
        if (is_body && beat_last) is_tail <= 1;
      end
    end
    if (is_body) tail_bytes <= body_bytes - 8'(WIDTH);
  end

endmodule
