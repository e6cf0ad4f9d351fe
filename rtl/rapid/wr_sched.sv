// The write scheduler, behind the last stage of a function (RAPID §4.2, §4.3, §4.5): says which packets have read a stale state and
// go back, and hands new states over. Its dTable mirrors the read scheduler's: a flow comes with its update, is clean after
// `cancel_dirty`, and goes when it has gone there.
module wr_sched #(
    // Whose, from 0.
    parameter int FUNCTION = 0
) (
    input  wire                       clk,
    // Synchronous, active low. After it no flow is dirty.
    input  wire                       resetn,

    // What the read scheduler said. It counts for the packet of this cycle.
    input  rapid_program::control_t   control,

    // A packet leaves the last stage: it goes on, or goes back, or is lost since dTable has no room for its flow.
    input  rapid_program::packet_t    leaving,
    output rapid_program::packet_t    passing,
    output rapid_program::packet_t    returning,
    output wire                       is_lost,
    // Its new state, if it goes on with one that it has not read.
    output rapid_program::writeback_t writeback
);

  localparam int IS_WEAK = rapid_program::IS_WEAK[32*FUNCTION +: 32];
  localparam int MAY_PASS = rapid_program::MAY_PASS[32*FUNCTION +: 32];
  localparam int FLOWS = rapid_program::FLOWS;
  localparam int WRITTEN_AT = rapid_program::WRITTEN_AT[32*FUNCTION +: 32];
  localparam int READ_AT = rapid_program::READ_AT[32*FUNCTION +: 32];
  localparam int KEY_BITS = rapid_program::KEY_BITS;
  localparam int VALUE_BITS = rapid_program::VALUE_BITS;
  localparam int OWN_VALUE_BITS = rapid_program::OWN_VALUE_BITS[32*FUNCTION +: 32];

  logic [FLOWS-1:0]    used;
  logic [FLOWS-1:0]    dirty;
  logic [KEY_BITS-1:0] keys [FLOWS];
  // Stale packets that may still pass.
  logic [31:0]         may_pass [FLOWS];

  // With what the read scheduler said.
  logic [FLOWS-1:0] used_now;
  logic [FLOWS-1:0] dirty_now;
  // Where the packet's flow is, and the lowest free place.
  logic [FLOWS-1:0] found;
  logic [FLOWS-1:0] free;
  logic             may;
  logic             is_any_free;
  always_comb begin
    may = 1'b0;
    is_any_free = 1'b0;
    for (int i = 0; i < FLOWS; i++) begin
      dirty_now[i] = dirty[i] && !(control.cancels[0] && control.cancel_0 == keys[i])
          && !(control.cancels[1] && control.cancel_1 == keys[i]);
      used_now[i] = used[i] && (dirty_now[i] || !(
          control.frees[0] && control.free_0 == keys[i] || control.frees[1] && control.free_1 == keys[i]
          || control.frees[2] && control.free_2 == keys[i] || control.frees[3] && control.free_3 == keys[i]));
      found[i] = used_now[i] && leaving.key == keys[i];
      if (found[i] && may_pass[i] != 32'd0) may = 1'b1;
      free[i] = !used_now[i] && !is_any_free;
      if (!used_now[i]) is_any_free = 1'b1;
    end
  end

  rapid_program::phv_t   phv;
  rapid_program::state_t read;
  rapid_program::state_t fresh;
  assign phv = leaving.phv;
  assign read = leaving.read;
  assign fresh.is_there = 1'b1;
  assign fresh.values = VALUE_BITS'(phv[READ_AT + OWN_VALUE_BITS +: OWN_VALUE_BITS]);

  wire asks;
  wire is_stale;
  wire goes_back;
  wire updates;
  wire registers;
  assign asks = leaving.valid && leaving.uses_table;
`ifdef FAULT_STALE
  // Planted: packets that read a stale state go on.
  assign is_stale = 1'b0;
`else
  assign is_stale = asks && |(found & dirty_now);
`endif
  assign goes_back = is_stale && !may;
  assign updates = asks && !goes_back && phv[WRITTEN_AT] && fresh != read;
  assign registers = updates && !leaving.is_alone && IS_WEAK == 0;
  assign is_lost = registers && found == '0 && !is_any_free;

  always_comb begin
    passing = leaving;
    passing.valid = leaving.valid && !goes_back && !is_lost;
    passing.is_alone = 1'b0;
    returning = leaving;
    returning.valid = goes_back;
    returning.is_alone = 1'b0;
    writeback.valid = updates && !is_lost;
`ifdef FAULT_DIRTY
    // Planted: a new state of the last function makes no flow dirty.
    writeback.is_dirty = registers && FUNCTION != rapid_program::FUNCTIONS - 1;
`else
    writeback.is_dirty = registers;
`endif
    writeback.key = leaving.key;
    writeback.state = fresh;
  end

  // Yosys 0.23 knows no members of structs within `generate`.
  rapid_program::key_t key;
  assign key = leaving.key;
  generate
    for (genvar i = 0; i < FLOWS; i++) begin : g_flow
      always_ff @(posedge clk) begin
        if (!resetn) begin
          used[i] <= 1'b0;
          dirty[i] <= 1'b0;
        end else if (registers && (found[i] || found == '0 && free[i])) begin
          // An update by one of the stale packets that may pass: the bound is the one that it was.
          if (!(found[i] && dirty_now[i])) may_pass[i] <= 32'(MAY_PASS);
          else if (is_stale && may) may_pass[i] <= may_pass[i] - 32'd1;
          used[i] <= 1'b1;
          dirty[i] <= 1'b1;
          keys[i] <= key;
        end else begin
          if (found[i] && is_stale && may) may_pass[i] <= may_pass[i] - 32'd1;
          used[i] <= used_now[i];
          dirty[i] <= dirty_now[i] && used_now[i];
        end
      end
    end
  endgenerate

endmodule
