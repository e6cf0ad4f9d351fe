// A queue of packets in registers. The front is there without a wait; in one cycle the front may go and a packet come,
// also where the queue was full.
module packet_queue #(
    // Packets, 1 or more.
    parameter int DEPTH = 8
) (
    input  wire                         clk,
    // Synchronous, active low. After it the queue is empty.
    input  wire                         resetn,

    // A packet comes; it is not taken where `has_room` is 0.
    input  rapid_program::packet_t      in,
    output wire                         has_room,

    // The front goes.
    input  wire                         pop,
    output rapid_program::packet_t      front,
    // Packets without the front that goes and the one that comes.
    output wire [31:0]                  left
);

  localparam int BITS = rapid_program::PACKET_BITS;

  // The front is in place 0.
  logic [BITS-1:0] packets [DEPTH];
  logic [31:0]     count;

  assign left = pop ? count - 32'd1 : count;
`ifdef FAULT_QUEUE
  // Planted: a full queue takes one more.
  assign has_room = 1'b1;
`else
  assign has_room = left != 32'(DEPTH);
`endif

  wire [BITS-1:0] first;
  assign first = packets[0];
  always_comb begin
    front = first;
    front.valid = count != 32'd0;
  end

  // Yosys 0.23 knows no members of structs within `generate`.
  wire comes;
  assign comes = in.valid;
  generate
    for (genvar i = 0; i < DEPTH; i++) begin : g_packet
      always_ff @(posedge clk) begin
        if (comes && left == 32'(i)) packets[i] <= in;
        else if (pop && i + 1 < DEPTH) packets[i] <= packets[i+1 < DEPTH ? i+1 : i];
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (!resetn) count <= 32'd0;
    else if (in.valid && has_room) count <= left + 32'd1;
    else count <= left;
  end

`ifdef FORMAL
  always_ff @(posedge clk) begin
    if (resetn) begin
      assert (count <= 32'(DEPTH));
      if (pop) assert (count != 32'd0);
    end
  end
`endif

endmodule
