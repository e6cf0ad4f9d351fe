// Packs an item of history, version 1: the time, and the bytes of the headers that the mask has. Combinational.
module item #(
    // Bit i: an item has byte i of the headers. Bit 63 counts as 1.
    parameter logic [63:0] HEADER_BYTES = 64'h8000000000000000,
    // Bytes of an item: 8, and one for each bit.
    parameter int ITEM = 9
) (
    input  wire [511:0]       headers,
    input  wire [63:0]        time_ns,
    // Byte i is bits 8i + 7 to 8i.
    output wire [ITEM*8-1:0]  out
);

  localparam logic [63:0] MASK = HEADER_BYTES | 64'h8000000000000000;

  // Where byte `byte_at` is in the item.
  function automatic int place(input int byte_at);
    place = 8;
    for (int i = 0; i < 64; i++) if (i < byte_at && MASK[i]) place = place + 1;
  endfunction

  assign out[63:0] = time_ns;
  generate
    for (genvar i = 0; i < 64; i++) begin : g_byte
      if (MASK[i]) begin : g_kept
        localparam int AT = place(i);
        assign out[8*AT +: 8] = headers[8*i +: 8];
      end
    end
  endgenerate

endmodule
