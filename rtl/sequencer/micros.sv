// Divides nanoseconds by 1,000, 4 bits of the quotient a cycle: one goes in and one comes out in each, 16 cycles later.
module micros (
    input  wire         clk,
    // Synchronous, active low. After it none is under way.
    input  wire         resetn,
    input  wire         in_valid,
    input  wire [63:0]  in,
    output wire         out_valid,
    // The lower 48 bits.
    output wire [47:0]  out
);

  // Of each step: the bits of the quotient so far, above those of the dividend that are still to come; and the remainder.
  logic        valids [17];
  logic [63:0] numbers [17];
  logic [9:0]  rests [17];
  assign valids[0] = in_valid;
  assign numbers[0] = in;
  assign rests[0] = 10'd0;
  generate
    for (genvar step = 0; step < 16; step++) begin : g_step
      logic [63:0] number;
      logic [10:0] rest;
      always_comb begin
        number = numbers[step];
        rest = {1'b0, rests[step]};
        for (int i = 0; i < 4; i++) begin
          rest = {rest[9:0], number[63]};
          number = {number[62:0], 1'b0};
`ifdef FAULT_MICROS
          // Planted: a rest of 1,000 is left.
          if (rest > 11'd1000)
`else
          if (rest >= 11'd1000)
`endif
          begin
            rest = rest - 11'd1000;
            number[0] = 1'b1;
          end
        end
      end
      always_ff @(posedge clk) begin
        valids[step+1] <= resetn && valids[step];
        numbers[step+1] <= number;
        rests[step+1] <= rest[9:0];
      end
    end
  endgenerate
  assign out_valid = valids[16];
  assign out = numbers[16][47:0];

endmodule
