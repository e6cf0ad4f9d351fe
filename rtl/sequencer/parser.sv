// Parses frames into header vectors, one beat a cycle, no back-pressure. A frame's headers are there 10 cycles after its
// last beat: 2 for the walker, 1 for the transport header, 7 for options.
module parser #(
    // Bytes of a beat: 64 or 128.
    parameter int WIDTH = 64
) (
    input  wire               clk,
    // Synchronous, active low. After it no frame has begun.
    input  wire               resetn,

    // A beat; all but a frame's last are full.
    input  wire               beat_valid,
    input  wire [WIDTH*8-1:0] beat,
    input  wire [7:0]         beat_bytes,
    input  wire               beat_first,
    input  wire               beat_last,

    // For one cycle.
    output wire               out_valid,
    output parsed::headers_t  out
);

  wire               gathered_valid;
  parsed::gathered_t gathered;
  walker #(.WIDTH(WIDTH)) walker (
      .clk       (clk),
      .resetn    (resetn),
      .beat_valid(beat_valid),
      .beat      (beat),
      .beat_bytes(beat_bytes),
      .beat_first(beat_first),
      .beat_last (beat_last),
      .out_valid (gathered_valid),
      .out       (gathered)
  );

  parsed::options_t found;
  transport transport (.in(gathered), .out(found));

  logic             parsed_valid;
  parsed::options_t parsed_packet;
  always_ff @(posedge clk) begin
    parsed_valid <= resetn && gathered_valid;
    parsed_packet <= found;
  end

  options options (
      .clk      (clk),
      .resetn   (resetn),
      .in_valid (parsed_valid),
      .in       (parsed_packet),
      .out_valid(out_valid),
      .out      (out)
  );

endmodule
