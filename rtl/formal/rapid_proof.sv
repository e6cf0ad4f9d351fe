// Under STRICT no stale read leaves a pipeline of RAPID, whatever packets come: each that leaves has read what the one of its flow before it
// left as the state, and those of a flow leave in the order in which they came. None leaves twice, or after it was lost. The pipeline's last
// stage is the one that writes. The modules assert that none of their buffers and queues of flows overflows.
module rapid_proof (
    input wire clk,
    input wire s_valid,
    // The packet has a key, which, and whether it makes a new state.
    input wire asks,
    input wire key,
    input wire updates
);

  localparam int VALUE_BITS = rapid_program::VALUE_BITS;
  localparam int READ_AT = rapid_program::READ_AT;

  logic is_reset = 1;
  // The next packet's place. There are fewer than 32 packets.
  logic [4:0] place = 1;
  rapid_program::phv_t s_phv;
  always_comb begin
    s_phv = '0;
    s_phv[rapid_program::ASKED_AT] = asks;
    s_phv[rapid_program::KEY_AT] = key;
    s_phv[rapid_program::UPDATES_AT] = updates;
  end

  wire m_valid;
  wire [31:0] m_place;
  rapid_program::phv_t m_phv;
  wire [31:0] lost_ring;
  wire [31:0] lost_rb;
  wire [31:0] lost_pb;
  wire [31:0] lost_dtable;
  rapid rapid (
      .clk(clk), .resetn(!is_reset), .s_valid(s_valid && !is_reset), .s_place({27'd0, place}), .s_phv(s_phv),
      .m_valid(m_valid), .m_place(m_place), .m_phv(m_phv),
      .lost_ring(lost_ring), .lost_rb(lost_rb), .lost_pb(lost_pb), .lost_dtable(lost_dtable)
  );

  // What each flow's last packet left as its state, and that packet's place.
  logic [VALUE_BITS-1:0] states [2];
  logic [4:0] places [2];
  // Any packet: whether it is gone.
  wire [4:0] watched = $anyconst;
  logic is_gone = 0;
  wire leaves;
  wire is_lost;
  assign leaves = m_valid && m_place[4:0] == watched;
  assign is_lost = lost_ring[4:0] == watched || lost_rb[4:0] == watched || lost_pb[4:0] == watched || lost_dtable[4:0] == watched;

  wire m_key;
  wire [VALUE_BITS-1:0] m_read;
  wire [VALUE_BITS-1:0] m_state;
  assign m_key = m_phv[rapid_program::KEY_AT];
  assign m_read = m_phv[READ_AT +: VALUE_BITS];
  assign m_state = m_phv[rapid_program::WRITTEN_AT] ? m_phv[READ_AT + VALUE_BITS +: VALUE_BITS] : m_read;

  always_comb assume (watched != 5'd0);
  always_ff @(posedge clk) begin
    is_reset <= 0;
    if (is_reset) begin
      states[0] <= '0;
      states[1] <= '0;
      places[0] <= 5'd0;
      places[1] <= 5'd0;
    end else begin
      if (s_valid) place <= place + 5'd1;
      if (m_valid && m_phv[rapid_program::ASKED_AT]) begin
        assert (m_read == states[m_key]);
        assert (m_place[4:0] > places[m_key]);
        states[m_key] <= m_state;
        places[m_key] <= m_place[4:0];
      end
      if (m_valid) assert (m_place != 32'd0 && m_place < {27'd0, place});
      if (leaves || is_lost) begin
        assert (!is_gone && !(leaves && is_lost));
        is_gone <= 1;
      end
    end
  end

endmodule
