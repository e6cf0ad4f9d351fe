// What rtl/rapid needs of the program `groups.p4`: written by `paceline p4 rtl`. docs/rtl.md says what it means.
// Function 0: `ingress.states`, STRICT.
// verilator lint_off DECLFILENAME
// verilator lint_off UNUSEDSIGNAL
// verilator lint_off UNUSEDPARAM
// verilator lint_off UNSIGNED
// verilator lint_off CMPCONST
package rapid_program;
  // Pipelines that share the ring.
  localparam int PIPELINES = 1;
  // Stages of each.
  localparam int STAGES = 6;
  // Nodes of the ring: those of the first one's stages, and so on.
  localparam int NODES = 6;
  // Registers of a stage.
  localparam int STAGE_CYCLES = 18;
  // Functions, in the order in which packets come to them.
  localparam int FUNCTIONS = 1;
  // Flows of each dTable, and of each queue.
  localparam int FLOWS = 6;
  // Packets of an RB.
  localparam int RB = 16;
  // Packets of a PB.
  localparam int PB = 32;
  // Packets of a ring node, of its stage.
  localparam int FROM_PIPELINE = 8;
  // Packets of a ring node, of the ring.
  localparam int FROM_RING = 8;
  // 1: a flow may be blocked.
  localparam int MAY_BLOCK = 1;
  // Updates after which it is.
  localparam int THRESHOLD = 4;
  // Bits of the widest key.
  localparam int KEY_BITS = 40;
  // Bits of the values of the widest state.
  localparam int VALUE_BITS = 24;
  // Bits of a header vector.
  localparam int PHV_BITS = 311;

  // For each function 32 bits, the first one's the lowest.
  // The node of the stage at whose entry a state is read, from 0.
  localparam logic [31:0] READ = {32'd1};
  // That of the stage at whose exit it is written.
  localparam logic [31:0] WRITE = {32'd3};
  // 1: WEAK.
  localparam logic [31:0] IS_WEAK = {32'd0};
  // Stale packets that may pass after an update.
  localparam logic [31:0] MAY_PASS = {32'd0};
  // Entries of the muTable.
  localparam logic [31:0] TABLE = {32'd64};
  // The bit of a header vector that says that there is a key.
  localparam logic [31:0] ASKED_AT = {32'd0};
  // The bit that says that there is a new state.
  localparam logic [31:0] WRITTEN_AT = {32'd1};
  // The first bit of the key.
  localparam logic [31:0] KEY_AT = {32'd2};
  // That of the state that was read; the new one is behind it.
  localparam logic [31:0] READ_AT = {32'd42};
  // Bits of a key.
  localparam logic [31:0] OWN_KEY_BITS = {32'd40};
  // Bits of a state's values.
  localparam logic [31:0] OWN_VALUE_BITS = {32'd24};

  // For each node 32 bits: in whose span it is; 0 where in none.
  localparam logic [191:0] FUNCTION_OF = {32'd0, 32'd0, 32'd0, 32'd0, 32'd0, 32'd0};

  typedef logic [39:0] key_t;
  typedef logic [310:0] phv_t;

  // What a muTable holds for a key.
  typedef struct packed {
    logic is_there;
    logic [VALUE_BITS-1:0] values;
  } state_t;
  localparam int STATE_BITS = VALUE_BITS + 1;

  // A packet, and what hardware keeps beside its header vector: of the function that it is in.
  typedef struct packed {
    logic        valid;
    logic [31:0] place;       // in order of arrival, from 1
    logic        uses_table;  // the fields below mean something
    logic        is_alone;    // of a flow that is blocked
    key_t        key;
    state_t      read;
    phv_t        phv;
  } packet_t;
  localparam int PACKET_BITS = 35 + KEY_BITS + STATE_BITS + PHV_BITS;

  // A new state on its way.
  typedef struct packed {
    logic   valid;
    logic   is_dirty;  // the flow is to be registered
    key_t   key;
    state_t state;
  } writeback_t;
  localparam int WRITEBACK_BITS = 2 + KEY_BITS + STATE_BITS;

  // What a read scheduler says in a cycle: two flows clean at most, four gone.
  typedef struct packed {
    logic [1:0] cancels;
    key_t       cancel_1;
    key_t       cancel_0;
    logic [3:0] frees;
    key_t       free_3;
    key_t       free_2;
    key_t       free_1;
    key_t       free_0;
  } control_t;
  localparam int CONTROL_BITS = 6 + 6 * KEY_BITS;
endpackage

// What a stage does to a header vector that enters it; a stage behind the program's last does nothing.
module rapid_step #(
    parameter int STAGE = 0
) (
    input  rapid_program::phv_t in,
    output rapid_program::phv_t out
);

  logic [0:0] w0;
  logic [0:0] w1;
  logic [39:0] w4;
  logic [7:0] w5;
  logic [15:0] w6;
  logic [7:0] w7;
  logic [15:0] w8;
  logic [0:0] w9;
  logic [15:0] w10;
  logic [7:0] w11;
  logic [7:0] w12;
  logic [31:0] w13;
  logic [7:0] w14;
  logic [7:0] w15;
  logic [7:0] w16;
  logic [7:0] w17;
  logic [8:0] w18;
  logic [31:0] w19;
  logic [7:0] w20;
  logic [7:0] w21;
  logic [7:0] w22;
  logic [7:0] w23;
  logic [15:0] w24;
  logic [2:0] w25;
  logic [0:0] w26;
  logic [15:0] w27;
  logic [8:0] w28;
  logic [1:0] w29;
  logic [1:0] w30;
  logic [1:0] w31;
  logic [15:0] at;

  always_comb begin
    {w31, w30, w29, w28, w27, w26, w25, w24, w23, w22, w21, w20, w19, w18, w17, w16, w15, w14, w13, w12, w11, w10, w9, w8, w7, w6, w5, w4, w1, w0} = in;
    at = 16'd0;
    if (STAGE == 0) begin
      if (128'(w9) == 128'd0) at = 16'd5;
      if (at <= 16'd1) begin if (((128'(w12) & 128'hff) == 128'h6)) begin w29 = 2'd1; w20 = 8'(128'h1); end else if (((128'(w12) & 128'hff) == 128'h11)) begin w29 = 2'd1; w20 = 8'(128'h2); end else begin w29 = 2'd1; w20 = 8'(128'h0); end end
      if (at <= 16'd2) begin if (w29 != 2'd1) at = 16'd5; end
      if (at <= 16'd3) begin w14 = 8'(128'(w20)); end
      if (at <= 16'd4) begin at = 16'd5; end
      if (at <= 16'd5) begin w0 = w0 & 1'd0; end
      if (at <= 16'd6) begin if (128'(w9) == 128'd0) at = 16'd8; end
      if (at <= 16'd7) begin w0[0] = 1'b1; w4 = {32'(128'(w13)), 8'(128'(w14))}; end
    end
    if (STAGE == 1) begin
      w28 = 9'(128'(w18));
      w1 = w1 & 1'd0;
      if (128'(w9) == 128'd0) at = 16'd9;
      if (at <= 16'd3) begin w23 = 8'(w0[0] ? (w1[0] ? 128'(w7) : 128'(w5)) : 128'd0); w24 = 16'(w0[0] ? (w1[0] ? 128'(w8) : 128'(w6)) : 128'd0); end
      if (at <= 16'd4) begin w15 = 8'(128'(w23)); end
      if (at <= 16'd5) begin w25 = 3'(128'(3'(128'(w24) >> 0))); end
      if (at <= 16'd6) begin w26 = 1'(128'(128'(w25) != 128'h5)); end
      if (at <= 16'd7) begin if (128'(w26) == 128'd0) at = 16'd9; end
      if (at <= 16'd8) begin w27 = 16'((128'(w24) + 128'(w10)) & 128'hffff); end
    end
    if (STAGE == 2) begin
      if (128'(w9) == 128'd0) at = 16'd5;
      if (at <= 16'd1) begin if ((128'(w15) >= 128'h0 && 128'(w15) <= 128'h3) && 1'b1) begin w30 = 2'd2; w21 = 8'(128'h4); end else if ((128'(w15) >= 128'h4 && 128'(w15) <= 128'h9) && ((128'(w11) & 128'hff) == 128'h40)) begin w30 = 2'd2; w21 = 8'(128'hc); end else if ((128'(w15) >= 128'h4 && 128'(w15) <= 128'h9) && 1'b1) begin w30 = 2'd2; w21 = 8'(128'ha); end else if ((128'(w15) >= 128'ha && 128'(w15) <= 128'hff) && ((128'(w11) & 128'hc0) == 128'h80)) begin w30 = 2'd2; w21 = 8'(128'h7); end else begin w30 = 2'd2; w21 = 8'(128'h3); end end
      if (at <= 16'd2) begin if (w30 != 2'd2) at = 16'd5; end
      if (at <= 16'd3) begin w16 = 8'(128'(w21)); end
      if (at <= 16'd4) begin at = 16'd5; end
    end
    if (STAGE == 3) begin
      if (128'(w9) == 128'd0) at = 16'd8;
      if (at <= 16'd1) begin if (((128'(w16) & 128'hff) == 128'h4)) begin w31 = 2'd3; w22 = 8'(128'h5); end else if (((128'(w16) & 128'hff) == 128'hc)) begin w31 = 2'd3; w22 = 8'(128'ha); end else if (((128'(w16) & 128'hff) == 128'ha)) begin w31 = 2'd3; w22 = 8'(128'h1); end else if (((128'(w16) & 128'hff) == 128'h7)) begin w31 = 2'd3; w22 = 8'(128'h0); end else begin w31 = 2'd3; w22 = 8'(128'hb); end end
      if (at <= 16'd2) begin if (w31 != 2'd3) at = 16'd5; end
      if (at <= 16'd3) begin w17 = 8'(128'(w22)); end
      if (at <= 16'd4) begin at = 16'd5; end
      if (at <= 16'd5) begin w28 = 9'(128'(w17)); end
      if (at <= 16'd6) begin if (128'(w26) == 128'd0) at = 16'd8; end
      if (at <= 16'd7) begin if (w0[0]) begin w1[0] = 1'b1; w7 = 8'(128'(w17)); w8 = 16'(128'(w27)); end end
    end
    out = {w31, w30, w29, w28, w27, w26, w25, w24, w23, w22, w21, w20, w19, w18, w17, w16, w15, w14, w13, w12, w11, w10, w9, w8, w7, w6, w5, w4, w1, w0};
  end

endmodule
