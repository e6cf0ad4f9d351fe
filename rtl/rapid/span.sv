// A function of the pipeline, but for its stages: the schedulers before and behind them, its muTable and its heartbeats.
module span #(
    // Which, from 0: in the order in which packets come to them.
    parameter int FUNCTION = 0
) (
    input  wire                       clk,
    // Synchronous, active low. After it the table is empty, and no flow is dirty.
    input  wire                       resetn,

    // A packet comes to the first stage, and one goes in, which has read its state.
    input  rapid_program::packet_t    arriving,
    output rapid_program::packet_t    reading,
    // A packet leaves the last stage: it goes on, or back.
    input  rapid_program::packet_t    leaving,
    output rapid_program::packet_t    passing,
    output rapid_program::packet_t    returning,

    // What the ring brings: to the first stage new states and packets, to the last what the read scheduler said.
    input  rapid_program::writeback_t writeback,
    input  rapid_program::packet_t    returned,
    input  rapid_program::control_t   control,
    // What it takes: from the last stage a new state, from the first what the read scheduler says.
    output rapid_program::writeback_t handed_over,
    output rapid_program::control_t   said,
    // Nodes of the ring in which packets wait.
    input  wire [rapid_program::NODES-1:0] is_waiting,

    // Packets lost in this cycle, by `place`, or 0: no room in RB, in PB, in dTable.
    output wire [31:0]                lost_rb,
    output wire [31:0]                lost_pb,
    output wire [31:0]                lost_dtable
);

  localparam int READ = rapid_program::READ[32*FUNCTION +: 32];
  localparam int WRITE = rapid_program::WRITE[32*FUNCTION +: 32];
  localparam int WRITTEN_AT = rapid_program::WRITTEN_AT[32*FUNCTION +: 32];
  localparam int READ_AT = rapid_program::READ_AT[32*FUNCTION +: 32];
  localparam int OWN_VALUE_BITS = rapid_program::OWN_VALUE_BITS[32*FUNCTION +: 32];

  localparam int SPAN = WRITE - READ + 1;

  // A packet that enters reads its state; one that does not use the table changes nothing.
  rapid_program::packet_t entering;
  rapid_program::state_t state;
  always_comb begin
    reading = entering;
    if (entering.uses_table) begin
      reading.read = state;
      reading.phv[READ_AT +: OWN_VALUE_BITS] = state.values[OWN_VALUE_BITS-1:0];
      reading.phv[WRITTEN_AT] = 1'b0;
    end
  end
  mu_table #(.FUNCTION(FUNCTION)) mu_table (
      .clk(clk), .resetn(resetn), .writeback(writeback), .key(entering.key), .state(state)
  );

  // Heartbeats: bit n is the one that the last stage sent n + 1 cycles ago, unless a node with packets waiting stopped it.
  logic [SPAN+1:0] beats;
  wire [SPAN+1:0] stopped;
  generate
    for (genvar i = 0; i < SPAN; i++) begin : g_stopped
      assign stopped[i] = is_waiting[WRITE-i];
    end
  endgenerate
  assign stopped[SPAN+1:SPAN] = 2'b00;
  always_ff @(posedge clk) begin
    if (!resetn) beats <= '0;
    else beats <= {beats[SPAN:0] & ~stopped[SPAN:0], 1'b1};
  end

  rd_sched #(.FUNCTION(FUNCTION)) rd_sched (
      .clk(clk), .resetn(resetn), .writeback(writeback), .returned(returned), .beat(beats[SPAN+1]),
      .arriving(arriving), .entering(entering), .control(said), .lost_rb(lost_rb), .lost_pb(lost_pb)
  );
  wire is_lost;
  wr_sched #(.FUNCTION(FUNCTION)) wr_sched (
      .clk(clk), .resetn(resetn), .control(control), .leaving(leaving), .passing(passing), .returning(returning),
      .is_lost(is_lost), .writeback(handed_over)
  );
  assign lost_dtable = is_lost ? leaving.place : 32'd0;

endmodule
