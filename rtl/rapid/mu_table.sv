// The muTable: all bits of a key match. Each entry compares, so that any key finds room wherever there is some.
module mu_table #(
    // Whose, from 0.
    parameter int FUNCTION = 0
) (
    input  wire                       clk,
    // Synchronous, active low. After it there is no entry.
    input  wire                       resetn,

    // A new state. It is what `state` gives in this cycle already. A new key in a full table is refused, and counted.
    input  rapid_program::writeback_t writeback,

    // The state of a key; where there is none, all bits 0.
    input  rapid_program::key_t       key,
    output rapid_program::state_t     state
);

  localparam int TABLE = rapid_program::TABLE[32*FUNCTION +: 32];
  localparam int KEY_BITS = rapid_program::KEY_BITS;
  localparam int STATE_BITS = rapid_program::STATE_BITS;

  localparam int INDEX = TABLE == 1 ? 1 : $clog2(TABLE);

  logic [KEY_BITS-1:0]   keys [TABLE];
  logic [STATE_BITS-1:0] states [TABLE];
  // Entries 0 to used - 1 are there.
  logic [31:0]           used;
  logic [31:0]           refused;

  logic                  is_known;
  logic [31:0]           write_at;
  logic [STATE_BITS-1:0] held;
  always_comb begin
    is_known = 1'b0;
    write_at = used;
    held = '0;
    for (int i = 0; i < TABLE; i++) begin
      if (32'(i) < used && keys[i] == writeback.key) begin
        is_known = 1'b1;
        write_at = 32'(i);
      end
      if (32'(i) < used && keys[i] == key) held = states[i];
    end
  end

  wire is_written;
  assign is_written = writeback.valid && (is_known || used != 32'(TABLE));
  assign state = is_written && writeback.key == key ? writeback.state : held;

  always_ff @(posedge clk) begin
    if (is_written) begin
      keys[write_at[INDEX-1:0]] <= writeback.key;
      states[write_at[INDEX-1:0]] <= writeback.state;
    end
  end

  always_ff @(posedge clk) begin
    if (!resetn) begin
      used <= 32'd0;
      refused <= 32'd0;
    end else begin
      if (is_written && !is_known) used <= used + 32'd1;
      if (writeback.valid && !is_written) refused <= refused + 32'd1;
    end
  end

endmodule
