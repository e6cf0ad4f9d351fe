// Pipelines of RAPID (NSDI'24, §4): stages, functions that each span some of them, and the side ring that all of them share, those of other
// pipelines too (§8): the last node of one is before the first of the next.
// `rapid_program` and `rapid_step`, which `paceline p4 rtl` writes, say what it runs.
module rapid (
    input  wire                 clk,
    // Synchronous, active low. After it the pipeline is empty, and so are all tables.
    input  wire                 resetn,

    // To each pipeline a packet's header vector as the parser leaves it, the key of the first stage found. It is always taken.
    input  wire [rapid_program::PIPELINES-1:0]    s_valid,
    // Its number, from 1.
    input  wire [32*rapid_program::PIPELINES-1:0] s_place,
    input  wire [rapid_program::PHV_BITS*rapid_program::PIPELINES-1:0] s_phv,

    // A packet leaves each; it is not held back.
    output wire [rapid_program::PIPELINES-1:0]    m_valid,
    output wire [32*rapid_program::PIPELINES-1:0] m_place,
    output wire [rapid_program::PHV_BITS*rapid_program::PIPELINES-1:0] m_phv,

    // Packets lost in this cycle, by `place`, or 0: no room in the ring node, in RB, in PB, in dTable. 32 bits for each function.
    output wire [32*rapid_program::FUNCTIONS-1:0] lost_ring,
    output wire [32*rapid_program::FUNCTIONS-1:0] lost_rb,
    output wire [32*rapid_program::FUNCTIONS-1:0] lost_pb,
    output wire [32*rapid_program::FUNCTIONS-1:0] lost_dtable
);

  localparam int PIPELINES = rapid_program::PIPELINES;
  localparam int STAGES = rapid_program::STAGES;
  localparam int NODES = rapid_program::NODES;
  localparam int PHV = rapid_program::PHV_BITS;
  localparam int FUNCTIONS = rapid_program::FUNCTIONS;
  localparam int PACKET = rapid_program::PACKET_BITS;
  localparam int WRITEBACK = rapid_program::WRITEBACK_BITS;
  localparam int CONTROL = rapid_program::CONTROL_BITS;

  // What comes to each stage; what leaves the stage itself; and what goes on behind it. Stages have the numbers of their nodes.
  wire [PACKET-1:0] comes_to [NODES];
  wire [PACKET-1:0] out_of [NODES];
  wire [PACKET-1:0] goes_on [NODES];
  // By function: what goes into its first stage and on behind its last, and what it and the ring give each other.
  wire [PACKET-1:0] reading [FUNCTIONS];
  wire [PACKET-1:0] passing [FUNCTIONS];
  wire [PACKET-1:0] returning [FUNCTIONS];
  wire [PACKET-1:0] returned [FUNCTIONS];
  wire [WRITEBACK-1:0] handed_over [FUNCTIONS];
  wire [WRITEBACK-1:0] writeback [FUNCTIONS];
  wire [CONTROL-1:0] said [FUNCTIONS];
  wire [CONTROL-1:0] control [FUNCTIONS];
  // What each node of the ring sends. Node i sends to node i - 1, node 0 to the last.
  wire [PACKET-1:0] ring_packet [NODES];
  wire [WRITEBACK-1:0] ring_writeback [NODES];
  wire [FUNCTIONS*CONTROL-1:0] ring_control [NODES];
  wire [NODES-1:0] has_room;
  wire [NODES-1:0] is_waiting;
  wire [NODES-1:0] is_lost;

  generate
    for (genvar i = 0; i < PIPELINES; i++) begin : g_pipeline
      // Yosys 0.23 knows no members of structs within `generate`: a packet's `valid` and `place` are in front, its `phv` is behind.
      assign comes_to[i*STAGES] = {s_valid[i], s_place[32*i +: 32], {(PACKET-33-PHV){1'b0}}, s_phv[PHV*i +: PHV]};
      assign {m_valid[i], m_place[32*i +: 32]} = goes_on[(i+1)*STAGES-1][PACKET-1 -: 33];
      assign m_phv[PHV*i +: PHV] = goes_on[(i+1)*STAGES-1][PHV-1:0];
    end

    for (genvar i = 0; i < FUNCTIONS; i++) begin : g_function
      localparam int READ = rapid_program::READ[32*i +: 32];
      localparam int WRITE = rapid_program::WRITE[32*i +: 32];
      rapid_program::packet_t f_arriving;
      rapid_program::packet_t f_reading;
      rapid_program::packet_t f_leaving;
      rapid_program::packet_t f_passing;
      rapid_program::packet_t f_returning;
      rapid_program::packet_t f_returned;
      rapid_program::writeback_t f_writeback;
      rapid_program::writeback_t f_handed_over;
      rapid_program::control_t f_control;
      rapid_program::control_t f_said;
      wire [31:0] place;
      assign f_arriving = comes_to[READ];
      assign f_leaving = out_of[WRITE];
      assign f_returned = returned[i];
      assign f_writeback = writeback[i];
      assign f_control = control[i];
      assign reading[i] = f_reading;
      assign passing[i] = f_passing;
      assign returning[i] = f_returning;
      assign handed_over[i] = f_handed_over;
      assign said[i] = f_said;
      assign place = out_of[WRITE][PACKET-2 -: 32];
      assign lost_ring[32*i +: 32] = is_lost[WRITE] ? place : 32'd0;
      span #(.FUNCTION(i)) span (
          .clk(clk), .resetn(resetn), .arriving(f_arriving), .reading(f_reading), .leaving(f_leaving), .passing(f_passing),
          .returning(f_returning), .writeback(f_writeback), .returned(f_returned), .control(f_control),
          .handed_over(f_handed_over), .said(f_said), .is_waiting(is_waiting),
          .lost_rb(lost_rb[32*i +: 32]), .lost_pb(lost_pb[32*i +: 32]), .lost_dtable(lost_dtable[32*i +: 32])
      );
    end

    // A stage and its node. One that is in the span of no function counts as one of the first, at neither end of it.
    for (genvar i = 0; i < NODES; i++) begin : g_stage
      localparam int FUNCTION = rapid_program::FUNCTION_OF[32*i +: 32];
      localparam bit IS_READ = rapid_program::READ[32*FUNCTION +: 32] == i;
      localparam bit IS_WRITE = rapid_program::WRITE[32*FUNCTION +: 32] == i;
      rapid_program::packet_t in;
      rapid_program::packet_t out;
      assign in = IS_READ ? reading[FUNCTION] : comes_to[i];
      assign out_of[i] = out;
      assign goes_on[i] = IS_WRITE ? passing[FUNCTION] : out_of[i];
      if (i % STAGES != 0) begin : g_behind
        assign comes_to[i] = goes_on[i-1];
      end
      stage #(.STAGE(i % STAGES)) stage (.clk(clk), .resetn(resetn), .in(in), .out(out));

      rapid_program::packet_t in_packet;
      rapid_program::packet_t out_packet;
      rapid_program::packet_t up_packet;
      rapid_program::packet_t down_packet;
      rapid_program::writeback_t in_writeback;
      rapid_program::writeback_t out_writeback;
      rapid_program::writeback_t up_writeback;
      rapid_program::writeback_t down_writeback;
      rapid_program::control_t up_control;
      rapid_program::control_t down_control;
`ifdef FAULT_RING
      // Planted: each pipeline has a ring of its own.
      localparam int BEHIND = i - i % STAGES + (i + 1) % STAGES;
`else
      localparam int BEHIND = (i + 1) % NODES;
`endif
      assign in_packet = ring_packet[BEHIND];
      assign in_writeback = ring_writeback[BEHIND];
      assign ring_packet[i] = out_packet;
      assign ring_writeback[i] = out_writeback;
      assign up_packet = IS_WRITE ? returning[FUNCTION] : '0;
      assign up_writeback = IS_WRITE ? handed_over[FUNCTION] : '0;
      assign up_control = IS_READ ? said[FUNCTION] : '0;
      if (IS_READ) begin : g_read
        assign returned[FUNCTION] = down_packet;
        assign writeback[FUNCTION] = down_writeback;
      end
      if (IS_WRITE) begin : g_write
        assign control[FUNCTION] = down_control;
      end
      ring_node #(.NODE(i)) node (
          .clk(clk), .resetn(resetn), .in_packet(in_packet), .in_writeback(in_writeback), .in_control(ring_control[BEHIND]),
          .out_packet(out_packet), .out_writeback(out_writeback), .out_control(ring_control[i]),
          .next_has_room(i == 0 ? 1'b1 : has_room[i == 0 ? 0 : i - 1]), .has_room(has_room[i]),
          .is_waiting(is_waiting[i]), .up_packet(up_packet), .up_writeback(up_writeback), .up_control(up_control),
          .is_lost(is_lost[i]), .down_packet(down_packet), .down_writeback(down_writeback),
          .down_control(down_control)
      );
    end
  endgenerate

endmodule
