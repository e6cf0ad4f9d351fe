// A step of the walk over TCP options (crates/wire/src/parse/tcp_options.rs): `COUNT` bytes of them, from `FIRST` on.
// Combinational.
module option_bytes #(
    // The first byte, of 40.
    parameter int FIRST = 0,
    parameter int COUNT = 8
) (
    input  parsed::options_t in,
    output parsed::options_t out
);

  // Two bytes behind the last one are read as well: an option's length, and a window scale.
  logic [335:0] bytes;
  assign bytes = {16'd0, in.bytes};

  logic is_syn;
  logic is_ack;
  assign is_syn = in.headers.tcp_flags[1];
  assign is_ack = in.headers.tcp_flags[4];

  logic [5:0] at;
  logic [7:0] kind;
  logic [7:0] length;
  logic [7:0] shift;
  logic [7:0] blocks;

  logic       is_over;
  logic [5:0] skip;
  logic       has_sack;
  logic [5:0] sack_at;
  logic [2:0] sack_blocks;
  logic [3:0] scale;
  logic       is_permitted;
  always_comb begin
    is_over = in.is_over;
    skip = in.skip;
    has_sack = in.has_sack;
    sack_at = in.sack_at;
    sack_blocks = in.sack_blocks;
    scale = in.headers.tcp_shape[3:0];
    is_permitted = in.headers.marks[7];
    at = 0;
    kind = 0;
    length = 0;
    shift = 0;
    blocks = 0;
    for (int i = FIRST; i < FIRST + COUNT; i++) begin
      at = 6'(i);
      kind = bytes[8*i +: 8];
      length = bytes[8*i + 8 +: 8];
      shift = bytes[8*i + 16 +: 8];
      blocks = length - 8'd2;
      if (skip != 0) begin
        skip = skip - 6'd1;
      end else if (!is_over && at < in.length && kind != 8'd1) begin
`ifdef FAULT_OPTION
        // Planted: an option may go past the header's end.
        if (kind == 0 || at + 6'd1 >= in.length || length < 2) begin
`else
        if (kind == 0 || at + 6'd1 >= in.length || length < 2 || length > {2'b0, in.length - at}) begin
`endif
          is_over = 1;
        end else begin
          skip = length[5:0] - 6'd1;
          if (kind == 8'd3 && length == 8'd3 && is_syn) scale = shift > 8'd14 ? 4'd14 : shift[3:0];
          if (kind == 8'd4 && length == 8'd2 && is_syn) is_permitted = 1;
          if (kind == 8'd5 && blocks != 0 && blocks[2:0] == 0 && is_ack) begin
            has_sack = 1;
            sack_at = at + 6'd2;
            sack_blocks = blocks[5:3];
          end
        end
      end
    end
  end

  always_comb begin
    out = in;
    out.is_over = is_over;
    out.skip = skip;
    out.has_sack = has_sack;
    out.sack_at = sack_at;
    out.sack_blocks = sack_blocks;
    out.headers.tcp_shape[3:0] = scale;
    out.headers.marks[7] = is_permitted;
  end

endmodule
