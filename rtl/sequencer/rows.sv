// Holds the ring of items in memories instead of registers, and puts it into the beats that `prepend` makes without it: words of a beat's width,
// as prefixes have them, in two banks, words with even numbers and with odd ones, each with one port to write and one to read.
// A beat is there 2 cycles later, and the next one follows at once. An item is written while the last beat of its packet reads, so that the
// memories have to read what was there before the write.
module rows #(
    // Bytes of a beat.
    parameter int WIDTH = 64,
    // Items, 1 or more; the bytes of each; and where in a prefix the first one begins, which is in its first beat.
    parameter int RING = 1,
    parameter int ITEM = 9,
    parameter int RING_AT = 40,
    // 1: block RAM. 2: RAM of look-up tables.
    parameter int KIND = 1
) (
    input  wire                clk,
    // Synchronous, active low. After it no item is there, and all bytes of the ring become 0.
    input  wire                resetn,
    // They are 0. Before that no beat may come.
    output logic               is_clear,

    // An item goes into the next slot, in the cycle in which the last beat of its packet is taken. Byte i is bits 8i + 7 to 8i.
    input  wire                item_valid,
    input  wire [ITEM*8-1:0]   item,

    // Beats, with 0 in the place of items. `has_prefix`: it has bytes of the prefix, from `index` * WIDTH on.
    input  wire                in_valid,
    output wire                in_ready,
    input  wire [WIDTH*8-1:0]  in,
    input  wire [7:0]          in_bytes,
    input  wire                in_last,
    input  wire [7:0]          in_core,
    input  wire                has_prefix,
    input  wire [15:0]         index,

    output wire                out_valid,
    input  wire                out_ready,
    output wire [WIDTH*8-1:0]  out,
    output wire [7:0]          out_bytes,
    output wire                out_last,
    output wire [7:0]          out_core
);

  localparam int WORDS = (RING_AT + RING * ITEM + WIDTH - 1) / WIDTH;
  localparam int DEPTH = (WORDS + 1) / 2;
  localparam int BITS = DEPTH < 2 ? 1 : $clog2(DEPTH);
  // Words that an item lies in at most, and cycles that writing it takes. The next item comes no sooner: its packet has as many beats.
  localparam int SPAN = (ITEM + 2 * WIDTH - 2) / WIDTH;
  localparam int TURNS = (SPAN + 1) / 2;

  wire advance;
  assign advance = !out_valid || out_ready;
  assign in_ready = advance;

  // --- items ---

  // Where in a prefix the next item goes, bytes.
  logic [15:0] next_at;
  logic is_writing;
  logic [7:0] turn;
  logic [15:0] at;
  logic [ITEM*8-1:0] written;
  always_ff @(posedge clk) begin
    if (!resetn) begin
      next_at <= 16'(RING_AT);
      is_writing <= 0;
      turn <= 0;
    end else if (advance) begin
      if (item_valid) begin
        next_at <= next_at == 16'(RING_AT + (RING - 1) * ITEM) ? 16'(RING_AT) : next_at + 16'(ITEM);
        is_writing <= 1;
        turn <= 0;
      end else begin
`ifdef FAULT_SPILL
        // Planted: of an item that lies in three words the last bytes are not written.
        is_writing <= 0;
`else
        if (turn + 8'd1 == 8'(TURNS)) is_writing <= 0;
        else turn <= turn + 8'd1;
`endif
      end
    end
    if (advance && item_valid) begin
      at <= next_at;
      written <= item;
    end
  end

  // The item as it lies in words, an even number of them, from that on in which it begins.
  wire [15:0] word;
  wire [15:0] shift;
  assign word = at / 16'(WIDTH);
  assign shift = at % 16'(WIDTH);
  wire [TURNS*2*WIDTH*8-1:0] window;
  wire [TURNS*2*WIDTH-1:0] mask;
  assign window = {{(TURNS*2*WIDTH-ITEM)*8{1'b0}}, written} << {shift, 3'd0};
  assign mask = {{(TURNS*2*WIDTH-ITEM){1'b0}}, {ITEM{1'b1}}} << shift;
  logic [2*WIDTH*8-1:0] pair;
  logic [2*WIDTH-1:0] pair_mask;
  always_comb begin
    pair = '0;
    pair_mask = '0;
    for (int i = 0; i < TURNS; i++) begin
      if (is_writing && turn == 8'(i)) begin
        pair = window[i*2*WIDTH*8 +: 2*WIDTH*8];
        pair_mask = mask[i*2*WIDTH +: 2*WIDTH];
      end
    end
  end
  wire [15:0] first;
  assign first = word + {7'd0, turn, 1'b0};

  // --- memories ---

  logic [15:0] clear_at;
  always_ff @(posedge clk) begin
    if (!resetn) begin
      clear_at <= 0;
      is_clear <= 0;
    end else if (!is_clear) begin
      clear_at <= clear_at + 16'd1;
      is_clear <= clear_at + 16'd1 == 16'(DEPTH);
    end
  end

  logic              valid_1;
  logic [WIDTH*8-1:0] data_1;
  logic [7:0]        bytes_1;
  logic              last_1;
  logic [7:0]        core_1;
  logic              has_1;
  logic [15:0]       index_1;

  wire [WIDTH*8-1:0] read [2];
  generate
    for (genvar bank = 0; bank < 2; bank++) begin : g_bank
      // Of the two words the first one is in this bank.
      wire is_first;
      assign is_first = first[0] == 1'(bank);
      wire [15:0] write_at;
      assign write_at = is_clear ? (first + 16'(!is_first)) / 16'd2 : clear_at;
      wire [WIDTH-1:0] write;
      assign write = !is_clear ? {WIDTH{1'b1}} : !advance ? '0 : is_first ? pair_mask[WIDTH-1:0] : pair_mask[2*WIDTH-1:WIDTH];
      wire [WIDTH*8-1:0] data;
      assign data = !is_clear ? '0 : is_first ? pair[WIDTH*8-1:0] : pair[2*WIDTH*8-1:WIDTH*8];
      row_memory #(.WIDTH(WIDTH), .DEPTH(DEPTH), .BITS(BITS), .KIND(KIND)) memory (
          .clk(clk), .write(write), .write_at(write_at[BITS-1:0]), .in(data),
`ifdef FAULT_LATE
          // Planted: beats do not wait for the item of the packet before.
          .read(advance), .read_at(index[BITS:1]), .out(read[bank])
`else
          .read(advance), .read_at(index_1[BITS:1]), .out(read[bank])
`endif
      );
    end
  endgenerate

  // --- beats ---

  logic              valid_2;
  logic [WIDTH*8-1:0] data_2;
  logic [7:0]        bytes_2;
  logic              last_2;
  logic [7:0]        core_2;
  logic              has_2;
  logic              is_odd_2;
  always_ff @(posedge clk) begin
    if (!resetn) begin
      valid_1 <= 0;
      valid_2 <= 0;
    end else if (advance) begin
      valid_1 <= in_valid;
      valid_2 <= valid_1;
    end
    if (advance) begin
      {data_1, bytes_1, last_1, core_1, has_1, index_1} <= {in, in_bytes, in_last, in_core, has_prefix, index};
      {data_2, bytes_2, last_2, core_2, has_2, is_odd_2} <= {data_1, bytes_1, last_1, core_1, has_1, index_1[0]};
    end
  end
  assign out_valid = valid_2;
  assign out = data_2 | (has_2 ? (is_odd_2 ? read[1] : read[0]) : '0);
  assign out_bytes = bytes_2;
  assign out_last = last_2;
  assign out_core = core_2;

endmodule
