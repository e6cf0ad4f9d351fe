// A pipeline of RAPID (NSDI'24, §4) with one function: stages, the schedulers before and behind those of the function, its muTable, and
// the side ring. `rapid_program` and `rapid_step`, which `paceline p4 rtl` writes, say what it runs.
module rapid (
    input  wire                 clk,
    // Synchronous, active low. After it the pipeline is empty, and so are all tables.
    input  wire                 resetn,

    // A packet's header vector as the parser leaves it, the key of the first stage found. It is always taken.
    input  wire                 s_valid,
    // Its place in the order of arrival, from 1.
    input  wire [31:0]          s_place,
    input  rapid_program::phv_t s_phv,

    // A packet leaves; it is not held back.
    output wire                 m_valid,
    output wire [31:0]          m_place,
    output rapid_program::phv_t m_phv,

    // Packets lost in this cycle, by `place`, or 0: no room in the ring node, in RB, in PB, in dTable.
    output wire [31:0]          lost_ring,
    output wire [31:0]          lost_rb,
    output wire [31:0]          lost_pb,
    output wire [31:0]          lost_dtable
);

  localparam int STAGES = rapid_program::STAGES;
  localparam int READ = rapid_program::READ;
  localparam int WRITE = rapid_program::WRITE;
  localparam int WRITTEN_AT = rapid_program::WRITTEN_AT;
  localparam int READ_AT = rapid_program::READ_AT;
  localparam int KEY_BITS = rapid_program::KEY_BITS;
  localparam int VALUE_BITS = rapid_program::VALUE_BITS;
  localparam int STATE_BITS = rapid_program::STATE_BITS;
  localparam int PACKET_BITS = rapid_program::PACKET_BITS;

  localparam int SPAN = WRITE - READ + 1;

  wire [PACKET_BITS-1:0] into [STAGES];
  wire [PACKET_BITS-1:0] out_of [STAGES];
  rapid_program::packet_t arrived;
  rapid_program::packet_t arriving;
  rapid_program::packet_t entering;
  rapid_program::packet_t reading;
  rapid_program::packet_t leaving;
  rapid_program::packet_t passing;
  rapid_program::packet_t returning;
  rapid_program::packet_t returned;
  rapid_program::packet_t last;
  rapid_program::writeback_t handed_over;
  rapid_program::writeback_t writeback;
  rapid_program::control_t said;
  rapid_program::control_t control;
  rapid_program::state_t state;

  // The stages, one behind the other; before the one that reads and behind the one that writes are the schedulers.
  always_comb begin
    arrived = '0;
    arrived.valid = s_valid;
    arrived.place = s_place;
    arrived.phv = s_phv;
  end
  assign leaving = out_of[WRITE];
  generate
    if (READ == 0) begin : g_arriving
      assign arriving = arrived;
    end else begin : g_arriving
      assign arriving = out_of[READ-1];
    end
    for (genvar i = 0; i < STAGES; i++) begin : g_stage
      if (i == READ) begin : g_in
        assign into[i] = reading;
      end else if (i == WRITE + 1) begin : g_in
        assign into[i] = passing;
      end else if (i == 0) begin : g_in
        assign into[i] = arrived;
      end else begin : g_in
        assign into[i] = out_of[i-1];
      end
      rapid_program::packet_t in;
      rapid_program::packet_t out;
      assign in = into[i];
      assign out_of[i] = out;
      stage #(.STAGE(i)) stage (.clk(clk), .resetn(resetn), .in(in), .out(out));
    end
    if (WRITE == STAGES - 1) begin : g_last
      assign last = passing;
    end else begin : g_last
      assign last = out_of[STAGES-1];
    end
  endgenerate
  assign m_valid = last.valid;
  assign m_place = last.place;
  assign m_phv = last.phv;

  // A packet that enters the function reads its state; one that does not use the table changes nothing.
  always_comb begin
    reading = entering;
    if (entering.uses_table) begin
      reading.read = state;
      reading.phv[READ_AT +: VALUE_BITS] = state.values;
      reading.phv[WRITTEN_AT] = 1'b0;
    end
  end
  mu_table mu_table (
      .clk(clk), .resetn(resetn), .writeback(writeback), .key(entering.key), .state(state)
  );

  // Heartbeats: bit n is the one that the last stage of the function sent n + 1 cycles ago, unless a node with packets waiting
  // stopped it.
  logic [SPAN+1:0] beats;
  wire [SPAN+1:0] stopped;
  always_ff @(posedge clk) begin
    if (!resetn) beats <= '0;
    else beats <= {beats[SPAN:0] & ~stopped[SPAN:0], 1'b1};
  end

  rd_sched rd_sched (
      .clk(clk), .resetn(resetn), .writeback(writeback), .returned(returned), .beat(beats[SPAN+1]),
      .arriving(arriving), .entering(entering), .control(said), .lost_rb(lost_rb), .lost_pb(lost_pb)
  );
  wire is_lost_dtable;
  wr_sched wr_sched (
      .clk(clk), .resetn(resetn), .control(control), .leaving(leaving), .passing(passing), .returning(returning),
      .is_lost(is_lost_dtable), .writeback(handed_over)
  );
  assign lost_dtable = is_lost_dtable ? leaving.place : 32'd0;

  // The ring. Node i sends to node i - 1, node 0 to the last.
  localparam int WRITEBACK = 2 + KEY_BITS + STATE_BITS;
  localparam int CONTROL = 6 + 6 * KEY_BITS;
  wire [PACKET_BITS-1:0] ring_packet [STAGES];
  wire [WRITEBACK-1:0]   ring_writeback [STAGES];
  wire [CONTROL-1:0]     ring_control [STAGES];
  wire [STAGES-1:0]      has_room;
  wire [STAGES-1:0]      is_waiting;
  wire [STAGES-1:0]      is_lost;
  assign lost_ring = is_lost[WRITE] ? leaving.place : 32'd0;
  generate
    for (genvar i = 0; i < SPAN; i++) begin : g_stopped
      assign stopped[i] = is_waiting[WRITE-i];
    end
    assign stopped[SPAN+1:SPAN] = 2'b00;
    for (genvar i = 0; i < STAGES; i++) begin : g_node
      rapid_program::packet_t in_packet;
      rapid_program::packet_t out_packet;
      rapid_program::packet_t down_packet;
      rapid_program::writeback_t in_writeback;
      rapid_program::writeback_t out_writeback;
      rapid_program::writeback_t down_writeback;
      rapid_program::control_t in_control;
      rapid_program::control_t out_control;
      rapid_program::control_t down_control;
      rapid_program::packet_t up_packet;
      rapid_program::writeback_t up_writeback;
      rapid_program::control_t up_control;
      assign in_packet = ring_packet[(i+1)%STAGES];
      assign in_writeback = ring_writeback[(i+1)%STAGES];
      assign in_control = ring_control[(i+1)%STAGES];
      assign ring_packet[i] = out_packet;
      assign ring_writeback[i] = out_writeback;
      assign ring_control[i] = out_control;
      assign up_packet = i == WRITE ? returning : '0;
      assign up_writeback = i == WRITE ? handed_over : '0;
      assign up_control = i == READ ? said : '0;
      if (i == READ) begin : g_read
        assign returned = down_packet;
        assign writeback = down_writeback;
      end
      if (i == WRITE) begin : g_write
        assign control = down_control;
      end
      ring_node #(.NODE(i)) node (
          .clk(clk), .resetn(resetn), .in_packet(in_packet), .in_writeback(in_writeback), .in_control(in_control),
          .out_packet(out_packet), .out_writeback(out_writeback), .out_control(out_control),
          .next_has_room(i == 0 ? 1'b1 : has_room[i == 0 ? 0 : i - 1]), .has_room(has_room[i]),
          .is_waiting(is_waiting[i]), .up_packet(up_packet), .up_writeback(up_writeback), .up_control(up_control),
          .is_lost(is_lost[i]), .down_packet(down_packet), .down_writeback(down_writeback),
          .down_control(down_control)
      );
    end
  endgenerate

endmodule
