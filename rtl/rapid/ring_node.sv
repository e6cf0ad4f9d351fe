// A node of the side ring (RAPID §4.3, Fig. 5). Against the pipeline, by one node in each cycle, go new states and packets from
// a function's stage that writes to the one that reads; and around the rest of the ring, through the nodes of other functions,
// what its read scheduler says to the other.
//
// What schedulers say is never delayed: each function has a lane for it. In a cycle in which a node sends none of that it sends
// a packet: of those from the ring first, then of its stage's. One that has packets waiting passes no heartbeat on.
module ring_node #(
    // Which, from 0; one for each stage of each pipeline.
    parameter int NODE = 0
) (
    input  wire                       clk,
    // Synchronous, active low. After it nothing is here.
    input  wire                       resetn,

    // From the node behind. Each is valid for one cycle.
    input  rapid_program::packet_t    in_packet,
    input  rapid_program::writeback_t in_writeback,
    input  wire [rapid_program::FUNCTIONS*rapid_program::CONTROL_BITS-1:0] in_control,

    // To the node before it, whether that has room for a packet, and whether this one has.
    output rapid_program::packet_t    out_packet,
    output rapid_program::writeback_t out_writeback,
    output wire [rapid_program::FUNCTIONS*rapid_program::CONTROL_BITS-1:0] out_control,
    input  wire                       next_has_room,
    output wire                       has_room,
    // Packets wait here.
    output wire                       is_waiting,

    // Its stage hands these over; a packet that finds no room is lost.
    input  rapid_program::packet_t    up_packet,
    input  rapid_program::writeback_t up_writeback,
    input  rapid_program::control_t   up_control,
    output wire                       is_lost,

    // What its stage gets, two cycles after it was taken off.
    output rapid_program::packet_t    down_packet,
    output rapid_program::writeback_t down_writeback,
    output rapid_program::control_t   down_control
);

  localparam int FUNCTIONS = rapid_program::FUNCTIONS;
  // Whose span it is in, if in any.
  localparam int FUNCTION = rapid_program::FUNCTION_OF[32*NODE +: 32];
  localparam int READ = rapid_program::READ[32*FUNCTION +: 32];
  localparam int WRITE = rapid_program::WRITE[32*FUNCTION +: 32];
  localparam bit IS_READ = NODE == READ;
  localparam bit IS_WRITE = NODE == WRITE;
  // Packets come through here.
  localparam bit SENDS = NODE > READ && NODE <= WRITE;
  localparam int PACKET = rapid_program::PACKET_BITS;
  localparam int WRITEBACK = rapid_program::WRITEBACK_BITS;
  localparam int CONTROL = rapid_program::CONTROL_BITS;

  // The ring's slot before this node, what its stage has handed over, and what was taken off in the last two cycles.
  logic [PACKET-1:0]    bus_packet;
  logic [WRITEBACK-1:0] bus_writeback;
  logic [FUNCTIONS*CONTROL-1:0] bus_control;
  logic [WRITEBACK-1:0] upload_writeback;
  logic [CONTROL-1:0]   upload_control;
  logic [PACKET-1:0]    taken_1_packet;
  logic [WRITEBACK-1:0] taken_1_writeback;
  logic [CONTROL-1:0]   taken_1_control;
  logic [PACKET-1:0]    taken_2_packet;
  logic [WRITEBACK-1:0] taken_2_writeback;
  logic [CONTROL-1:0]   taken_2_control;

  assign down_packet = taken_2_packet;
  assign down_writeback = taken_2_writeback;
  assign down_control = taken_2_control;
  assign out_writeback = IS_WRITE ? upload_writeback : IS_READ ? '0 : bus_writeback;
  generate
    for (genvar i = 0; i < FUNCTIONS; i++) begin : g_lane
      if (i == FUNCTION && IS_READ) assign out_control[CONTROL*i +: CONTROL] = upload_control;
      else if (i == FUNCTION && IS_WRITE) assign out_control[CONTROL*i +: CONTROL] = '0;
      else assign out_control[CONTROL*i +: CONTROL] = bus_control[CONTROL*i +: CONTROL];
    end
  endgenerate

  // Whether a scheduler says something in a lane that goes on.
  logic says;
  rapid_program::control_t lane;
  always_comb begin
    says = 1'b0;
    lane = '0;
    for (int i = 0; i < FUNCTIONS; i++) begin
      lane = out_control[CONTROL*i +: CONTROL];
      if (lane.cancels != 2'd0 || lane.frees != 4'd0) says = 1'b1;
    end
  end
`ifdef FAULT_SLOT
  // Planted: the node takes off what is for the next function's stage.
  localparam int TAKES = (FUNCTION + 1) % FUNCTIONS;
`else
  localparam int TAKES = FUNCTION;
`endif

  // Yosys 0.23 knows no members of structs within `generate`: these are packets as bits, with `valid` in front.
  localparam int VALID = PACKET - 1;
  wire bus_is_taken;
  wire is_handed_over;
`ifdef FAULT_WAY
  // Planted: a packet does not give way to what schedulers say, and is sent beside it.
  assign bus_is_taken = out_writeback.valid;
`else
  assign bus_is_taken = out_writeback.valid || says;
`endif
  assign is_handed_over = up_packet.valid;
  generate
    if (SENDS) begin : g_sends
      wire [PACKET-1:0] from_ring_front;
      wire [PACKET-1:0] from_pipeline_front;
      wire may_send;
      wire from_ring_goes;
      wire bus_goes;
      wire from_pipeline_goes;
      wire pipeline_has_room;
      wire [31:0] from_ring_left;
      wire [31:0] from_pipeline_left;
      wire is_held;
      wire [PACKET-1:0] goes;

      assign may_send = next_has_room && !bus_is_taken;
      assign from_ring_goes = may_send && from_ring_front[VALID];
      assign bus_goes = may_send && !from_ring_front[VALID] && bus_packet[VALID];
      assign from_pipeline_goes = may_send && !from_ring_front[VALID] && !bus_packet[VALID] && from_pipeline_front[VALID];
      assign is_held = bus_packet[VALID] && !bus_goes;
      assign goes = from_ring_goes ? from_ring_front : bus_goes ? bus_packet : from_pipeline_front;
      assign out_packet = {from_ring_goes || bus_goes || from_pipeline_goes, goes[VALID-1:0]};

      wire unused;
      packet_queue #(.DEPTH(rapid_program::FROM_RING)) from_ring (
          .clk(clk), .resetn(resetn), .in({is_held, bus_packet[VALID-1:0]}), .has_room(unused), .pop(from_ring_goes),
          .front(from_ring_front), .left(from_ring_left)
      );
      packet_queue #(.DEPTH(rapid_program::FROM_PIPELINE)) from_pipeline (
          .clk(clk), .resetn(resetn), .in(up_packet), .has_room(pipeline_has_room), .pop(from_pipeline_goes),
          .front(from_pipeline_front), .left(from_pipeline_left)
      );

      // The node behind asks after this one has sent.
`ifdef FAULT_ROOM
      // Planted: the packet that waits in the slot is forgotten.
      assign has_room = from_ring_left != 32'(rapid_program::FROM_RING);
`else
      assign has_room = from_ring_left + 32'(is_held) != 32'(rapid_program::FROM_RING);
`endif
      assign is_waiting = from_ring_left != 32'd0 || is_held || from_pipeline_left != 32'd0;
      assign is_lost = is_handed_over && !pipeline_has_room;
    end else begin : g_passes
      assign out_packet = '0;
      assign has_room = 1'b1;
      assign is_waiting = 1'b0;
      assign is_lost = 1'b0;
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (!resetn) begin
      bus_packet <= '0;
      bus_writeback <= '0;
      bus_control <= '0;
      upload_writeback <= '0;
      upload_control <= '0;
      taken_1_packet <= '0;
      taken_1_writeback <= '0;
      taken_1_control <= '0;
      taken_2_packet <= '0;
      taken_2_writeback <= '0;
      taken_2_control <= '0;
    end else begin
      bus_packet <= in_packet;
      bus_writeback <= in_writeback;
      bus_control <= in_control;
      upload_writeback <= up_writeback;
      upload_control <= up_control;
      taken_1_packet <= IS_READ ? bus_packet : '0;
      taken_1_writeback <= IS_READ ? bus_writeback : '0;
      taken_1_control <= IS_WRITE ? bus_control[CONTROL*TAKES +: CONTROL] : '0;
      taken_2_packet <= taken_1_packet;
      taken_2_writeback <= taken_1_writeback;
      taken_2_control <= taken_1_control;
    end
  end

endmodule
