// Nothing is lost, doubled or moved in a `fifo` of 4, with gaps and back-pressure anywhere: elements are numbered as they go in, and have to come
// out with the numbers that follow.
module fifo_proof (
    input wire clk,
    input wire in_valid,
    input wire out_ready
);

  logic is_reset = 1;
  logic [3:0] sent = 0;
  logic [3:0] received = 0;

  wire in_ready;
  wire out_valid;
  wire [3:0] out;
  fifo #(.BITS(4), .DEPTH(4)) fifo (
      .clk(clk), .resetn(!is_reset),
      .in_valid(in_valid), .in_ready(in_ready), .in(sent),
      .out_valid(out_valid), .out_ready(out_ready), .out(out)
  );

  always_ff @(posedge clk) begin
    is_reset <= 0;
    if (!is_reset) begin
      if (in_valid && in_ready) sent <= sent + 1'b1;
      if (out_valid && out_ready) received <= received + 1'b1;
      if (out_valid) assert (out == received);
      // 4 in the memory, one at the front.
      assert (sent - received <= 4'd5);
      cover (sent - received == 4'd5);
    end
  end

endmodule
