// A stage of the pipeline: what the program does in it is done to a packet that enters, which then goes through registers.
module stage #(
    // Which, from 0.
    parameter int STAGE = 0
) (
    input  wire                    clk,
    // Synchronous, active low. After it no packet is here.
    input  wire                    resetn,

    // A packet enters in each cycle in which it is valid, and leaves STAGE_CYCLES later.
    input  rapid_program::packet_t in,
    output rapid_program::packet_t out
);

  localparam int CYCLES = rapid_program::STAGE_CYCLES;
  localparam int BITS = rapid_program::PACKET_BITS;

  // The packet that entered last is in place 0.
  logic [BITS-1:0] held [CYCLES];

  rapid_program::phv_t was;
  rapid_program::phv_t is;
  rapid_program::packet_t entering;
  assign was = in.phv;
  rapid_step #(.STAGE(STAGE)) stepped (.in(was), .out(is));
  always_comb begin
    entering = in;
    entering.phv = is;
  end

  assign out = held[CYCLES-1];

  generate
    for (genvar i = 0; i < CYCLES; i++) begin : g_held
      always_ff @(posedge clk) begin
        if (!resetn) held[i] <= '0;
        else if (i == 0) held[i] <= entering;
        else held[i] <= held[i == 0 ? 0 : i-1];
      end
    end
  endgenerate

endmodule
