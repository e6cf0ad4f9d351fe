// Holds the ring of items, a row of registers each, and makes the prefix of the next packet of it: the outer Ethernet
// header if there is one, the fixed header, the ring (docs/history-format.md). One row changes for each packet. Where `rows` has
// the ring, it is left out: 0 is in its place.
module history #(
    // Cores that get packets in turn. The format ends at 64.
    parameter int CORES = 1,
    // Of the format: 1, or 3 without flushes.
    parameter int VERSION = 1,
    // What the fixed header says of the items' layout: in version 1 bit i for byte i of the headers, bit 63 included.
    parameter logic [63:0] LAYOUT = 64'h8000000000000000,
    // Bytes of an item. In version 1: 8, and one for each bit.
    parameter int ITEM = 9,
    // 1 if a prefix begins with an Ethernet header, else 0.
    parameter int HAS_ETHERNET = 0,
    // 0: the rows are here. Else they are in memories, in `rows`.
    parameter int ROWS_IN_RAM = 0,
    // Bytes of a prefix: 40 or in version 3 48, 14 if there is an Ethernet header, ITEM for each core but one.
    parameter int PREFIX = 40
) (
    input  wire                clk,
    // Synchronous, active low. After it the ring is empty and all bytes 0, and the next packet has number 0.
    input  wire                resetn,

    // An item goes in: that of the packet whose number `prefix` has. For one cycle.
    input  wire                in_valid,
    input  wire [ITEM*8-1:0]   in,

    // What the prefix is for: a packet that came at this time, and is refused for this reason, or 0; or a flush; and its core.
    input  wire [63:0]         time_ns,
    input  wire [6:0]          refused,
    input  wire                is_flush,
    input  wire [15:0]         core,
    // Version 3 says these too: by which port the packet came, and which of its core's it is.
    input  wire [15:0]         port,
    input  wire [31:0]         turn,
    // Byte i is bits 8i + 7 to 8i.
    output wire [PREFIX*8-1:0] prefix
);

  localparam int RING = CORES - 1;
  localparam int HEADER_AT = HAS_ETHERNET != 0 ? 14 : 0;
  localparam int HEADER = VERSION == 1 ? 40 : 48;

  logic [63:0] seq;
  logic [15:0] count;
  logic [15:0] next;

  always_ff @(posedge clk) begin
    if (!resetn) begin
      seq <= 0;
      count <= 0;
      next <= 0;
    end else if (in_valid) begin
      seq <= seq + 64'd1;
      if (count != 16'(RING)) count <= count + 16'd1;
      // A ring without items stays at 0.
      if (RING == 0 || next + 16'd1 == 16'(RING)) next <= 0;
      else next <= next + 16'd1;
    end
  end

  // In a ring that is not full the oldest item is in slot 0.
  logic [15:0] oldest;
  assign oldest = count == 16'(RING) ? next : 16'd0;

  // In network order: the highest bits are byte 0.
  wire [HEADER*8-1:0] fixed;
  generate
    if (VERSION == 1) begin : g_headers
      assign fixed = {
        32'h504c4849, 8'd1, refused, is_flush, is_flush ? 16'd0 : 16'd1,
        seq, time_ns, LAYOUT, 16'(ITEM), 16'(RING), count, oldest
      };
    end else begin : g_fields
      assign fixed = {
        32'h504c4849, 8'd3, 8'd0, 16'd1,
        seq, time_ns, LAYOUT, 16'(ITEM), 16'(RING), count, oldest, core, port, turn
      };
    end
    for (genvar i = 0; i < HEADER; i++) begin : g_fixed
      assign prefix[8*(HEADER_AT+i) +: 8] = fixed[8*(HEADER-1-i) +: 8];
    end
    if (HAS_ETHERNET != 0) begin : g_ethernet
      assign prefix[111:0] = {16'hb588, 48'hffff00000002, core[7:0], core[15:8], 32'h00000002};
    end
    for (genvar slot = 0; slot < RING; slot++) begin : g_slot
      logic [ITEM*8-1:0] row;
      if (ROWS_IN_RAM != 0) assign row = '0;
      else always_ff @(posedge clk) begin
        if (!resetn) row <= '0;
`ifdef FAULT_SLOT
        // Planted: an item overwrites the newest one, not the oldest.
        else if (in_valid && (next == 0 ? 16'(RING - 1) : next - 16'd1) == 16'(slot)) row <= in;
`else
        else if (in_valid && next == 16'(slot)) row <= in;
`endif
      end
      assign prefix[8*(HEADER_AT+HEADER+slot*ITEM) +: ITEM*8] = row;
    end
  endgenerate

endmodule
