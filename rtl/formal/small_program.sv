// A program as small as solvers like it, in the place of what `paceline p4 rtl` writes: the first stage reads a flow's state, a number; the last
// makes it one more, for packets that say so. Stages of a cycle, buffers of one or two, STRICT.
package rapid_program;
`ifdef LONG_SPAN
  // A second function behind it, of which a node of the first one hears what its schedulers say.
  localparam int STAGES = 5;
  localparam int NODES = 5;
  localparam int FUNCTIONS = 2;
  localparam logic [63:0] READ = {32'd3, 32'd0};
  localparam logic [63:0] WRITE = {32'd4, 32'd2};
  localparam logic [159:0] FUNCTION_OF = {32'd1, 32'd1, 32'd0, 32'd0, 32'd0};
  localparam logic [63:0] IS_WEAK = 64'd0;
  localparam logic [63:0] MAY_PASS = 64'd0;
  localparam logic [63:0] TABLE = {32'd2, 32'd2};
  localparam logic [63:0] ASKED_AT = {32'd0, 32'd0};
  localparam logic [63:0] WRITTEN_AT = {32'd1, 32'd1};
  localparam logic [63:0] KEY_AT = {32'd2, 32'd2};
  localparam logic [63:0] READ_AT = {32'd3, 32'd3};
  localparam logic [63:0] OWN_KEY_BITS = {32'd1, 32'd1};
  localparam logic [63:0] OWN_VALUE_BITS = {32'd3, 32'd3};
`else
  localparam int STAGES = 2;
  localparam int NODES = 2;
  localparam int FUNCTIONS = 1;
  localparam logic [31:0] READ = 32'd0;
  localparam logic [31:0] WRITE = 32'd1;
  localparam logic [63:0] FUNCTION_OF = 64'd0;
  localparam logic [31:0] IS_WEAK = 32'd0;
  localparam logic [31:0] MAY_PASS = 32'd0;
  localparam logic [31:0] TABLE = 32'd2;
  // A header vector, from bit 0: there is a key, there is a new state, the key, the state that was read, the new one, the packet makes one.
  localparam logic [31:0] ASKED_AT = 32'd0;
  localparam logic [31:0] WRITTEN_AT = 32'd1;
  localparam logic [31:0] KEY_AT = 32'd2;
  localparam logic [31:0] READ_AT = 32'd3;
  localparam logic [31:0] OWN_KEY_BITS = 32'd1;
  localparam logic [31:0] OWN_VALUE_BITS = 32'd3;
`endif
  localparam int PIPELINES = 1;
  localparam int STAGE_CYCLES = 1;
  localparam int FLOWS = 1;
  localparam int RB = 2;
  localparam int PB = 2;
  localparam int FROM_PIPELINE = 2;
  localparam int FROM_RING = 2;
  localparam int MAY_BLOCK = 0;
  localparam int THRESHOLD = 4;
  localparam int UPDATES_AT = 9;
  localparam int KEY_BITS = 1;
  localparam int VALUE_BITS = 3;
  localparam int PHV_BITS = 10;
  typedef logic [0:0] key_t;
  typedef logic [9:0] phv_t;

  typedef struct packed {
    logic is_there;
    logic [2:0] values;
  } state_t;
  localparam int STATE_BITS = VALUE_BITS + 1;

  typedef struct packed {
    logic        valid;
    logic [31:0] place;
    logic        uses_table;
    logic        is_alone;
    key_t        key;
    state_t      read;
    phv_t        phv;
  } packet_t;
  localparam int PACKET_BITS = 35 + KEY_BITS + STATE_BITS + PHV_BITS;

  typedef struct packed {
    logic   valid;
    logic   is_dirty;
    key_t   key;
    state_t state;
  } writeback_t;
  localparam int WRITEBACK_BITS = 2 + KEY_BITS + STATE_BITS;

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

module rapid_step #(
    parameter int STAGE = 0
) (
    input  rapid_program::phv_t in,
    output rapid_program::phv_t out
);

  localparam int WRITE = rapid_program::WRITE[31:0];
  localparam int ASKED_AT = rapid_program::ASKED_AT[31:0];
  localparam int WRITTEN_AT = rapid_program::WRITTEN_AT[31:0];
  localparam int READ_AT = rapid_program::READ_AT[31:0];
  localparam int NEW_AT = READ_AT + rapid_program::VALUE_BITS;
  always_comb begin
    out = in;
    if (STAGE == WRITE && in[ASKED_AT] && in[rapid_program::UPDATES_AT]) begin
      out[WRITTEN_AT] = 1'b1;
      out[NEW_AT +: rapid_program::VALUE_BITS] = in[READ_AT +: rapid_program::VALUE_BITS] + 3'd1;
    end
  end

endmodule
