// Keeps a frame's first bytes for a program's parser, one beat a cycle, no back-pressure: they are there a cycle after its last beat.
module gather #(
    // Bytes of a beat.
    parameter int WIDTH = 64,
    // Bytes that are kept.
    parameter int BYTES = 64
) (
    input  wire               clk,
    // Synchronous, active low. After it no frame has begun.
    input  wire               resetn,

    // A beat; all but a frame's last are full. With the first one: by which port the frame came.
    input  wire               beat_valid,
    input  wire [WIDTH*8-1:0] beat,
    input  wire [7:0]         beat_bytes,
    input  wire               beat_first,
    input  wire               beat_last,
    input  wire [15:0]        port,

    // For one cycle. The first byte is the highest bits; bytes behind the frame's end are anything.
    output logic              out_valid,
    output wire [BYTES*8-1:0] out,
    output logic [16:0]       length,
    output logic [15:0]       came_by
);

  localparam int BEATS = (BYTES + WIDTH - 1) / WIDTH;
  logic [BEATS*WIDTH*8-1:0] kept;
  assign out = kept[BEATS*WIDTH*8-1 -: BYTES*8];

  wire [WIDTH*8-1:0] ordered;
  generate
    for (genvar i = 0; i < WIDTH; i++) begin : g_byte
      assign ordered[8*(WIDTH-1-i) +: 8] = beat[8*i +: 8];
    end
  endgenerate

  // Number of the next beat, no higher than of those that are kept.
  logic [15:0] next;
  wire [15:0] index;
  assign index = beat_first ? 16'd0 : next;
  always_ff @(posedge clk) begin
    out_valid <= resetn && beat_valid && beat_last;
    if (beat_valid) begin
      for (int i = 0; i < BEATS; i++) if (index == 16'(i)) kept[(BEATS-1-i)*WIDTH*8 +: WIDTH*8] <= ordered;
      next <= index == 16'(BEATS) ? index : index + 16'd1;
`ifdef FAULT_LENGTH
      // Planted: what was there before a short frame counts as its own.
      length <= 17'(BYTES) + 17'(beat_bytes);
`else
      length <= (beat_first ? 17'd0 : length) + 17'(beat_bytes);
`endif
      if (beat_first) came_by <= port;
    end
  end

endmodule
