// Puts the history that a replicated chain needs before each packet, and sends packets to cores in turn: SCR §3.3, as
// `paceline sequence` does. docs/rtl.md draws it.
//
// A packet takes ceil((prefix + frame) / WIDTH) cycles. It leaves whole, without a gap, but for one that is longer than
// the buffer.
module sequencer #(
    // Bytes of a beat: 64 or 128.
    parameter int WIDTH = 64,
    // Cores that get packets in turn: 1 to 64.
    parameter int CORES = 8,
    // Bit i: an item of history has byte i of the headers (docs/history-format.md, "Items of version 1"). Bit 63 counts as 1.
    parameter logic [63:0] HEADER_BYTES = 64'h8000000000000000,
    // 1 if a prefix begins with an outer Ethernet header, else 0.
    parameter int HAS_ETHERNET = 0,
    // So many cycles after the last packet each core gets a flush.
    parameter int FLUSH_CYCLES = 65536,
    // Beats that wait to go out; a power of two, 16 or more.
    parameter int BUFFER = 256,
    // Frames that wait to go out; a power of two, 2 or more.
    parameter int FRAMES = 64,
    // The rows of the history: 0 in registers, 1 in block RAM, 2 in RAM of look-up tables. In RAM a packet leaves 2 cycles later.
    parameter int ROWS_IN_RAM = 0
) (
    input  wire                 clk,
    // Synchronous, active low. After it no packet has come: the history is empty, the next number is 0, the next core is 0.
    input  wire                 resetn,

    // Frames without their check sequence, byte i in bits 8i + 7 to 8i. All beats but a frame's last are full, and its
    // last has a byte or more, from byte 0 on. `tuser` of the first beat: when the frame came, ns since the Unix epoch.
    // A frame has at most 131,071 bytes.
    input  wire                 s_axis_tvalid,
    output wire                 s_axis_tready,
    input  wire [WIDTH*8-1:0]   s_axis_tdata,
    input  wire [WIDTH-1:0]     s_axis_tkeep,
    input  wire                 s_axis_tlast,
    input  wire [63:0]          s_axis_tuser,

    // Packets behind their history, and flushes. `tdest`: the core.
    output logic                m_axis_tvalid,
    input  wire                 m_axis_tready,
    output logic [WIDTH*8-1:0]  m_axis_tdata,
    output logic [WIDTH-1:0]    m_axis_tkeep,
    output logic                m_axis_tlast,
    output logic [7:0]          m_axis_tdest
);

  localparam logic [63:0] MASK = HEADER_BYTES | 64'h8000000000000000;
  function automatic int ones(input logic [63:0] bits);
    ones = 0;
    for (int i = 0; i < 64; i++) if (bits[i]) ones = ones + 1;
  endfunction
  localparam int KEPT = ones(MASK);
  localparam int ITEM = 8 + KEPT;
  localparam int PREFIX = (HAS_ETHERNET != 0 ? 54 : 40) + (CORES - 1) * ITEM;

  // --- in ---

  logic       in_first;
  logic [7:0] in_bytes;
  always_comb begin
    in_bytes = 0;
    for (int i = 0; i < WIDTH; i++) if (s_axis_tkeep[i]) in_bytes = 8'(i + 1);
  end

  wire ends;
  wire is_in;
  wire packet_ends;
  logic is_flush;
  wire buffer_ready;
  wire has_place;
  // Frames that have begun to come in, and not gone out.
  logic [15:0] frames;
`ifdef FAULT_FRAMES
  // Planted: a frame more comes in than there is room for.
  assign has_place = 1'b1;
`else
  assign has_place = !in_first || frames != 16'(FRAMES);
`endif
  assign s_axis_tready = buffer_ready && has_place;
  assign is_in = s_axis_tvalid && s_axis_tready;
  assign packet_ends = ends && !is_flush;

  always_ff @(posedge clk) begin
    if (!resetn) begin
      in_first <= 1;
      frames <= 0;
    end else begin
      if (is_in) in_first <= s_axis_tlast;
      if (is_in && in_first && !packet_ends) frames <= frames + 16'd1;
      if (!(is_in && in_first) && packet_ends) frames <= frames - 16'd1;
    end
  end

  wire               beat_valid;
  wire               beat_ready;
  wire [WIDTH*8-1:0] beat;
  wire [7:0]         beat_bytes;
  wire               beat_last;
  fifo #(.BITS(WIDTH * 8 + 9), .DEPTH(BUFFER)) beats (
      .clk(clk), .resetn(resetn),
      .in_valid(s_axis_tvalid && has_place), .in_ready(buffer_ready), .in({s_axis_tlast, in_bytes, s_axis_tdata}),
      .out_valid(beat_valid), .out_ready(beat_ready), .out({beat_last, beat_bytes, beat})
  );

  wire        time_valid;
  wire [63:0] arrival;
  wire        unused_time_ready;
  fifo #(.BITS(64), .DEPTH(FRAMES)) times (
      .clk(clk), .resetn(resetn),
      .in_valid(is_in && in_first), .in_ready(unused_time_ready), .in(s_axis_tuser),
      .out_valid(time_valid), .out_ready(packet_ends), .out(arrival)
  );

  wire              parsed_valid;
  parsed::headers_t headers;
  parser #(.WIDTH(WIDTH)) parser (
      .clk(clk), .resetn(resetn),
      .beat_valid(is_in), .beat(s_axis_tdata), .beat_bytes(in_bytes), .beat_first(in_first), .beat_last(s_axis_tlast),
      .out_valid(parsed_valid), .out(headers)
  );

  wire [ITEM*8-1:0] packed_item;
  item #(.HEADER_BYTES(MASK), .ITEM(ITEM)) item (.headers(headers), .time_ns(64'd0), .out(packed_item));

  // There is a place for each frame that has one in `times`.
  wire              item_valid;
  wire [KEPT*8-1:0] kept;
  wire              unused_item_ready;
  fifo #(.BITS(KEPT * 8), .DEPTH(FRAMES)) items (
      .clk(clk), .resetn(resetn),
      .in_valid(parsed_valid), .in_ready(unused_item_ready), .in(packed_item[ITEM*8-1:64]),
      .out_valid(item_valid), .out_ready(packet_ends), .out(kept)
  );

  // --- out ---

  // Stamps never run back.
  logic [63:0] last_time;
  wire  [63:0] stamp;
  assign stamp = is_flush || arrival < last_time ? last_time : arrival;

  // The next packet's core; a flush goes to each, from 0 on.
  logic [15:0] core;
  logic [15:0] flush_core;

  // What a receiver is told of its packet's fragments, although it would find this one itself: as `paceline sequence` does.
  // Of a frame that is longer than the buffer it is not known yet.
  wire [7:0] malformed_code;
  wire [6:0] refused;
  assign malformed_code = kept[KEPT*8-1 -: 8];
  assign refused = !is_flush && item_valid && malformed_code == parsed::FRAGMENT_OVERFLOW ? malformed_code[6:0] : 7'd0;

  wire [PREFIX*8-1:0] prefix;
  history #(.CORES(CORES), .MASK(MASK), .ITEM(ITEM), .HAS_ETHERNET(HAS_ETHERNET), .ROWS_IN_RAM(ROWS_IN_RAM), .PREFIX(PREFIX)) history (
      .clk(clk), .resetn(resetn),
      .in_valid(packet_ends), .in({kept, stamp}),
      .time_ns(stamp), .refused(refused), .is_flush(is_flush), .core(is_flush ? flush_core : core),
      .prefix(prefix)
  );

  wire               rows_ready;
  wire               has_prefix;
  wire [15:0]        index;
  wire               is_running;
  wire               out_valid;
  wire               out_ready;
  wire [WIDTH*8-1:0] out;
  wire [7:0]         out_bytes;
  wire               out_last;
  // A frame begins to leave once it is whole, or if the buffer has no place for the rest of it.
  prepend #(.WIDTH(WIDTH), .PREFIX(PREFIX)) prepend (
      .clk(clk), .resetn(resetn),
      .start(rows_ready && (is_flush || (time_valid && beat_valid && (item_valid || !buffer_ready)))), .is_alone(is_flush), .prefix(prefix),
      .may_end(is_flush || item_valid), .is_running(is_running), .ends(ends),
      .beat_valid(beat_valid), .beat_ready(beat_ready), .beat(beat), .beat_bytes(beat_bytes), .beat_last(beat_last),
      .out_valid(out_valid), .out_ready(out_ready), .out(out), .out_bytes(out_bytes), .out_last(out_last),
      .has_prefix(has_prefix), .index(index)
  );

  always_ff @(posedge clk) begin
    if (!resetn) begin
      last_time <= 0;
      core <= 0;
    end else if (packet_ends) begin
      last_time <= stamp;
      core <= core + 16'd1 == 16'(CORES) ? 16'd0 : core + 16'd1;
    end
  end

  // --- flush ---

  // Cores know of the last packet.
  logic        is_flushed;
  logic [31:0] idle;
  always_ff @(posedge clk) begin
    if (!resetn) begin
      is_flush <= 0;
      is_flushed <= 1;
      idle <= 0;
      flush_core <= 0;
    end else begin
      if (is_running || frames != 0) idle <= 0;
      else if (!is_flushed) idle <= idle + 32'd1;
      if (packet_ends) is_flushed <= 0;
      if (!is_running && frames == 0 && !is_flushed && idle >= 32'(FLUSH_CYCLES)) begin
        is_flush <= 1;
        flush_core <= 0;
      end
      if (is_flush && ends) begin
        flush_core <= flush_core + 16'd1;
        if (flush_core + 16'd1 == 16'(CORES)) begin
          is_flush <= 0;
          is_flushed <= 1;
        end
      end
    end
  end

  // --- rows in RAM ---

  wire               whole_valid;
  wire               whole_ready;
  wire [WIDTH*8-1:0] whole;
  wire [7:0]         whole_bytes;
  wire               whole_last;
  wire [7:0]         whole_core;
  wire [7:0]         out_core;
  assign out_core = is_flush ? flush_core[7:0] : core[7:0];
  generate
    if (ROWS_IN_RAM != 0 && CORES > 1) begin : g_rows
      rows #(.WIDTH(WIDTH), .RING(CORES - 1), .ITEM(ITEM), .RING_AT(PREFIX - (CORES - 1) * ITEM), .KIND(ROWS_IN_RAM)) rows (
          .clk(clk), .resetn(resetn), .is_clear(rows_ready),
          .item_valid(packet_ends), .item({kept, stamp}),
          .in_valid(out_valid), .in_ready(out_ready), .in(out), .in_bytes(out_bytes), .in_last(out_last), .in_core(out_core),
          .has_prefix(has_prefix), .index(index),
          .out_valid(whole_valid), .out_ready(whole_ready), .out(whole), .out_bytes(whole_bytes), .out_last(whole_last), .out_core(whole_core)
      );
    end else begin : g_registers
      assign {whole_valid, whole, whole_bytes, whole_last, whole_core} = {out_valid, out, out_bytes, out_last, out_core};
      assign {out_ready, rows_ready} = {whole_ready, 1'b1};
    end
  endgenerate

  // --- register ---

  assign whole_ready = !m_axis_tvalid || m_axis_tready;
  always_ff @(posedge clk) begin
    if (!resetn) m_axis_tvalid <= 0;
    else if (whole_ready) m_axis_tvalid <= whole_valid;
    if (whole_ready) begin
      m_axis_tdata <= whole;
      m_axis_tlast <= whole_last;
      m_axis_tdest <= whole_core;
      for (int i = 0; i < WIDTH; i++) m_axis_tkeep[i] <= 8'(i) < whole_bytes;
    end
  end

`ifdef FORMAL
  // Each frame that begins has a place in `times` and in `items`.
  always_ff @(posedge clk) begin
    if (resetn) begin
      if (is_in && in_first) assert (unused_time_ready);
      if (parsed_valid) assert (unused_item_ready);
    end
  end
`endif

endmodule
