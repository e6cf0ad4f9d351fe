// No frame is lost, doubled, cut or moved in the whole `sequencer`, with gaps and back-pressure anywhere: bytes of frames are numbered as they come
// in, the last one of each is marked, and they have to come out with the numbers that follow, each frame behind one whole prefix. Packets have the
// numbers that follow, and go to the cores in turn; the parser is that of `any_parser.sv`. Beats of 16 bytes,
// prefixes of 49, buffers of 4 beats and 2 frames, two cores, flushes after 3 cycles.
module sequencer_proof (
    input wire clk,
    input wire in_valid,
    input wire in_last,
    input wire [4:0] in_bytes,
    input wire out_ready
);

  localparam int WIDTH = 16;
  localparam int PREFIX = 49;

  logic is_reset = 1;
  // Numbers of the next byte in, and of the next out; place of the next byte out in its packet; packets that are out.
  logic [6:0] sent = 0;
  logic [6:0] received = 0;
  logic [6:0] place = 0;
  logic [7:0] packets = 0;

  wire [WIDTH*8-1:0] in;
  wire [WIDTH-1:0] keep;
  generate
    for (genvar i = 0; i < WIDTH; i++) begin : g_byte
      assign in[8*i +: 8] = {in_last && 5'(i + 1) == in_bytes, sent + 7'(i)};
      assign keep[i] = 5'(i) < in_bytes;
    end
  endgenerate

  wire in_ready;
  wire out_valid;
  wire [WIDTH*8-1:0] out;
  wire [WIDTH-1:0] out_keep;
  wire out_last;
  wire [7:0] core;
  sequencer #(.WIDTH(WIDTH), .CORES(2), .FLUSH_CYCLES(3), .BUFFER(4), .FRAMES(2)) sequencer (
      .clk(clk), .resetn(!is_reset),
      .s_axis_tvalid(in_valid && !is_reset), .s_axis_tready(in_ready), .s_axis_tdata(in), .s_axis_tkeep(keep), .s_axis_tlast(in_last),
      .s_axis_tuser(64'd0),
      .m_axis_tvalid(out_valid), .m_axis_tready(out_ready), .m_axis_tdata(out), .m_axis_tkeep(out_keep), .m_axis_tlast(out_last),
      .m_axis_tdest(core)
  );

  // What the module may rely on.
  logic was_offered = 0;
  logic [4:0] bytes_before = 0;
  logic last_before = 0;
  always_ff @(posedge clk) begin
    was_offered <= !is_reset && in_valid && !in_ready;
    bytes_before <= in_bytes;
    last_before <= in_last;
  end
  always_comb begin
    assume (in_bytes >= 1 && in_bytes <= WIDTH);
    if (!in_last) assume (in_bytes == WIDTH);
    if (was_offered) assume (in_valid && in_bytes == bytes_before && in_last == last_before);
  end

  // Byte by byte, what a beat has to hold. A flush is a prefix alone.
  logic was_flush = 0;
  wire is_flush;
  assign is_flush = place == 0 ? out[40] : was_flush;
  logic [6:0] number;
  logic [6:0] at;
  logic is_right;
  always_comb begin
    number = received;
    at = place;
    is_right = 1;
    for (int i = 0; i < WIDTH; i++) begin
      if (out_keep[i]) begin
        if (at == 0 && out[8*i +: 8] != 8'h50) is_right = 0;
        // The packet's number; a flush has that of the packet that is still to come.
        if (at == 7'd15 && out[8*i +: 8] != packets) is_right = 0;
        if (at == PREFIX) begin
          if (out[8*i +: 8] != {out_last && (i + 1 == WIDTH || !out_keep[i+1 == WIDTH ? i : i+1]), number}) is_right = 0;
          number = number + 1'b1;
        end else at = at + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    is_reset <= 0;
    if (!is_reset) begin
      if (in_valid && in_ready) sent <= sent + {2'd0, in_bytes};
      if (out_valid) begin
        assert (is_right);
        if (!out_last) assert (&out_keep);
        if (out_last) assert (at == PREFIX);
        if (is_flush) assert (number == received);
        if (out_last && !is_flush) assert (number != received || place == PREFIX);
        // A byte that did not come in would have a number that is still to come.
        assert (number - received <= sent - received);
        if (!is_flush) assert (core == {7'd0, packets[0]});
      end
      if (out_valid && out_ready) begin
        received <= number;
        place <= out_last ? 7'd0 : at;
        was_flush <= is_flush;
        if (out_last && !is_flush) packets <= packets + 8'd1;
      end
    end
  end

endmodule
