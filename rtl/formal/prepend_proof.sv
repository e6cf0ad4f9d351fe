// Each packet that `prepend` puts together is a whole prefix and all bytes of its frame, in order, with gaps and back-pressure anywhere: bytes of
// frames are numbered as they come in, and those of prefixes by their place. Beats of 4 bytes, prefixes of 6.
module prepend_proof (
    input wire clk,
    input wire start,
    input wire is_alone,
    input wire may_end,
    input wire beat_valid,
    input wire [7:0] beat_bytes,
    input wire beat_last,
    input wire out_ready
);

  localparam int WIDTH = 4;
  localparam int PREFIX = 6;

  logic is_reset = 1;
  // Numbers of the next byte in, and of the next out; place of the next byte out in its packet.
  logic [5:0] sent = 0;
  logic [5:0] received = 0;
  logic [7:0] place = 0;

  wire [PREFIX*8-1:0] prefix;
  wire [WIDTH*8-1:0] beat;
  generate
    for (genvar i = 0; i < PREFIX; i++) begin : g_prefix
      assign prefix[8*i +: 8] = 8'h80 + 8'(i);
    end
    for (genvar i = 0; i < WIDTH; i++) begin : g_beat
      assign beat[8*i +: 8] = {2'd0, sent + 6'(i)};
    end
  endgenerate

  wire is_running;
  wire ends;
  wire beat_ready;
  wire out_valid;
  wire [WIDTH*8-1:0] out;
  wire [7:0] out_bytes;
  wire out_last;
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) prepend (
      .clk(clk), .resetn(!is_reset),
      .start(start), .is_alone(is_alone), .prefix(prefix), .may_end(may_end), .is_running(is_running), .ends(ends),
      .beat_valid(beat_valid), .beat_ready(beat_ready), .beat(beat), .beat_bytes(beat_bytes), .beat_last(beat_last),
      .out_valid(out_valid), .out_ready(out_ready), .out(out), .out_bytes(out_bytes), .out_last(out_last),
      .has_prefix(), .index()
  );

  // What the module may rely on: full beats but for a frame's last; what is offered stays until it is taken; and what a
  // packet is does not change within it.
  logic was_offered = 0;
  logic [7:0] bytes_before = 0;
  logic last_before = 0;
  logic was_inside = 0;
  logic alone_before = 0;
  logic start_before = 0;
  always_ff @(posedge clk) begin
    was_offered <= beat_valid && !beat_ready;
    bytes_before <= beat_bytes;
    last_before <= beat_last;
    was_inside <= !is_reset && is_running && !ends;
    alone_before <= is_alone;
    start_before <= start && !is_running;
  end
  always_comb begin
    assume (beat_bytes >= 1 && beat_bytes <= WIDTH);
    if (!beat_last) assume (beat_bytes == WIDTH);
    if (was_offered) assume (beat_valid && beat_bytes == bytes_before && beat_last == last_before);
    // A packet that may begin may do so until it has.
    if (was_inside) assume (is_alone == alone_before && (start || is_running));
    if (is_reset) assume (!start && !beat_valid);
  end

  // Byte by byte, what a beat has to hold.
  logic [5:0] number;
  logic [7:0] at;
  logic is_right;
  always_comb begin
    number = received;
    at = place;
    is_right = 1;
    for (int i = 0; i < WIDTH; i++) begin
      if (8'(i) < out_bytes) begin
        if (at < PREFIX) begin
          if (out[8*i +: 8] != 8'h80 + at) is_right = 0;
        end else begin
          if (out[8*i +: 8] != {2'd0, number}) is_right = 0;
          number = number + 1'b1;
        end
        if (at < PREFIX) at = at + 1'b1;
      end
    end
  end

  wire [5:0] sent_next;
  assign sent_next = beat_valid && beat_ready ? sent + beat_bytes[5:0] : sent;

  always_ff @(posedge clk) begin
    is_reset <= 0;
    if (!is_reset) begin
      sent <= sent_next;
      if (out_valid) begin
        assert (is_right);
        assert (out_bytes >= 1 && out_bytes <= WIDTH);
        if (!out_last) assert (out_bytes == WIDTH);
        // A packet ends with its frame's last byte, and none of a frame goes out alone.
        if (out_last) assert (at == PREFIX && (!out_ready || number == sent_next));
        if (out_last && is_alone) assert (number == received);
      end
      if (out_valid && out_ready) begin
        received <= number;
        place <= out_last ? 8'd0 : at;
      end
      cover (ends && beat_last && number == 6'd9);
    end
  end

endmodule
