// A queue in a memory with one write port and one read port, such as a block RAM. An element that goes into an empty
// queue is at the front 2 cycles later; then one goes in and one comes out in each cycle.
module fifo #(
    // Bits of an element.
    parameter int BITS = 8,
    // Elements, a power of two. One more is at the front.
    parameter int DEPTH = 16
) (
    input  wire            clk,
    // Synchronous, active low. After it the queue is empty.
    input  wire            resetn,

    // An element goes in where both are 1. `in_ready` does not wait for `in_valid`.
    input  wire            in_valid,
    output wire            in_ready,
    input  wire [BITS-1:0] in,

    // The front; it goes where both are 1. `out_valid` does not wait for `out_ready`.
    output logic           out_valid,
    input  wire            out_ready,
    output logic [BITS-1:0] out
);

  localparam int INDEX = $clog2(DEPTH);

  logic [BITS-1:0] memory [DEPTH];
  logic [INDEX-1:0] write_at;
  logic [INDEX-1:0] read_at;
  // Elements in the memory.
  logic [INDEX:0]   count;

  wire is_in;
  wire is_fetched;
`ifdef FAULT_FULL
  // Planted: a full queue takes one more.
  assign in_ready = 1;
`else
  assign in_ready = count != (INDEX + 1)'(DEPTH);
`endif
  assign is_in = in_valid && in_ready;
  assign is_fetched = count != 0 && (!out_valid || out_ready);

  always_ff @(posedge clk) begin
    if (is_in) memory[write_at] <= in;
    if (is_fetched) out <= memory[read_at];
  end

  always_ff @(posedge clk) begin
    if (!resetn) begin
      write_at <= 0;
      read_at <= 0;
      count <= 0;
      out_valid <= 0;
    end else begin
      if (is_in) write_at <= write_at + 1'b1;
      if (is_fetched) read_at <= read_at + 1'b1;
      if (is_in && !is_fetched) count <= count + 1'b1;
      if (!is_in && is_fetched) count <= count - 1'b1;
      if (is_fetched) out_valid <= 1;
      else if (out_ready) out_valid <= 0;
    end
  end

endmodule
