// A node in the middle of RAPID's ring loses, doubles and reorders no packet, with gaps and back-pressure anywhere, and holds none back that may
// go: packets of the ring and of the stage are numbered as they come in, and have to come out with the numbers that follow. A packet
// that its stage hands over to a full queue is said to be lost. The queues assert that they never overflow.
module ring_node_proof (
    input wire clk,
    // The node behind has a packet, if there is room for it, or a new state; the stage has a packet.
    input wire behind,
    input wire is_state,
    // The scheduler of another function says that a flow is clean, or gone: no packet goes then.
    input wire is_clean,
    input wire is_gone,
    input wire up,
    // The node before has room.
    input wire next_has_room
);

  logic is_reset = 1;
  logic says_next = 0;
  // Numbers of the next packet in and out, of the ring and of the stage.
  logic [2:0] ring_in = 0;
  logic [2:0] ring_out = 0;
  logic [2:0] up_in = 0;
  logic [2:0] up_out = 0;

  wire has_room;
  wire is_waiting;
  wire is_lost;
  rapid_program::packet_t in_packet;
  rapid_program::packet_t up_packet;
  rapid_program::packet_t out_packet;
  rapid_program::packet_t down_packet;
  rapid_program::writeback_t in_writeback;
  rapid_program::writeback_t out_writeback;
  rapid_program::writeback_t down_writeback;
  localparam int CONTROL = rapid_program::CONTROL_BITS;
  wire [rapid_program::FUNCTIONS*CONTROL-1:0] out_control;
  rapid_program::control_t other;
  rapid_program::control_t other_out;
  wire says;
  assign other_out = out_control[CONTROL +: CONTROL];
  assign says = other_out.cancels != 2'd0 || other_out.frees != 4'd0;
  rapid_program::control_t down_control;
  always_comb begin
    // `uses_table` says that it is of the ring.
    in_packet = '0;
    in_packet.valid = behind && has_room && !is_reset;
    in_packet.place = {29'd0, ring_in};
    in_packet.uses_table = 1'b1;
    up_packet = '0;
    up_packet.valid = up && !is_reset;
    up_packet.place = {29'd0, up_in};
    other = '0;
    other.cancels[1] = is_clean && !is_reset;
    other.frees[2] = is_gone && !is_reset;
    in_writeback = '0;
    in_writeback.valid = is_state && !is_reset;
  end
  ring_node #(.NODE(1)) node (
      .clk(clk), .resetn(!is_reset), .in_packet(in_packet), .in_writeback(in_writeback), .in_control({other, {CONTROL{1'b0}}}),
      .out_packet(out_packet), .out_writeback(out_writeback), .out_control(out_control),
      .next_has_room(next_has_room), .has_room(has_room), .is_waiting(is_waiting),
      .up_packet(up_packet), .up_writeback('0), .up_control('0), .is_lost(is_lost),
      .down_packet(down_packet), .down_writeback(down_writeback), .down_control(down_control)
  );

  // Packets that are here.
  wire [2:0] of_ring;
  wire [2:0] of_stage;
  assign of_ring = ring_in - ring_out;
  assign of_stage = up_in - up_out;

  always_ff @(posedge clk) begin
    is_reset <= 0;
    says_next <= !is_reset && (is_clean || is_gone);
    if (!is_reset) begin
      // What the other function's scheduler says goes on a cycle later, whatever waits.
      assert (says == says_next);
      if (in_packet.valid) ring_in <= ring_in + 3'd1;
      if (up && !is_lost) up_in <= up_in + 3'd1;
      if (out_packet.valid) begin
        assert (next_has_room && !out_writeback.valid && !says);
        if (out_packet.uses_table) begin
          assert (out_packet.place == {29'd0, ring_out} && of_ring != 3'd0);
          ring_out <= ring_out + 3'd1;
        end else begin
          assert (out_packet.place == {29'd0, up_out} && of_stage != 3'd0);
          // Those of the ring go first.
          assert (of_ring == 3'd0);
          up_out <= up_out + 3'd1;
        end
      end else begin
        assert (!next_has_room || out_writeback.valid || says || of_ring == 3'd0 && of_stage == 3'd0);
      end
      // Two in the queue, one in the slot before it.
      assert (of_ring <= 3'd3 && of_stage <= 3'd2);
      if (is_lost) assert (of_stage == 3'd2 && !(out_packet.valid && !out_packet.uses_table));
      // What stays here stops heartbeats.
      if (out_packet.valid ? of_ring + of_stage > 3'd1 : of_ring + of_stage != 3'd0) assert (is_waiting);
    end
  end

endmodule
