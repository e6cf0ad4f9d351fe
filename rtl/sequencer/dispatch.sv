// Keeps frames while a parser reads them, stamps them, puts the history before them and gives them to cores in turn: SCR §3.3. A sequencer is this
// and a parser: `sequencer` for the headers of a chain, what `paceline rtl sequencer PROGRAM.p4` writes for those of a program.
//
// A packet takes ceil((prefix + frame) / WIDTH) cycles. It leaves whole, without a gap, but for one that is longer than
// the buffer.
module dispatch #(
    // Bytes of a beat: 64 or 128.
    parameter int WIDTH = 64,
    // Cores that get packets in turn: 1 to 64.
    parameter int CORES = 8,
    // Of the history format: 1 or 3.
    parameter int VERSION = 1,
    // What the fixed header says of the items' layout.
    parameter logic [63:0] LAYOUT = 64'h8000000000000000,
    // Bytes of an item that the parser makes. In version 1 the time is before them.
    parameter int KEPT = 1,
    // In version 3: where in an item the packet's time is, in microseconds and 6 bytes, or -1.
    parameter int TIME_AT = -1,
    // 1 if a prefix begins with an outer Ethernet header, else 0.
    parameter int HAS_ETHERNET = 0,
    // So many cycles after the last packet each core gets a flush; 0: none does.
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
    // By which port the frame came, with its first beat; version 3 says it.
    input  wire [15:0]          s_axis_tid,

    // Beats for a parser, which holds none back: what it makes of a frame comes at any time after the last one, in order.
    output wire                 beat_in,
    output logic                beat_in_first,
    output logic [7:0]          beat_in_bytes,
    input  wire                 kept_valid,
    // Byte i is bits 8i + 7 to 8i.
    input  wire [KEPT*8-1:0]    kept_in,

    // Packets behind their history, and flushes. `tdest`: the core.
    output logic                m_axis_tvalid,
    input  wire                 m_axis_tready,
    output logic [WIDTH*8-1:0]  m_axis_tdata,
    output logic [WIDTH-1:0]    m_axis_tkeep,
    output logic                m_axis_tlast,
    output logic [7:0]          m_axis_tdest
);

  localparam int ITEM = VERSION == 1 ? 8 + KEPT : KEPT;
  localparam int PREFIX = (HAS_ETHERNET != 0 ? 14 : 0) + (VERSION == 1 ? 40 : 48) + (CORES - 1) * ITEM;

  // --- in ---

  always_comb begin
    beat_in_bytes = 0;
    for (int i = 0; i < WIDTH; i++) if (s_axis_tkeep[i]) beat_in_bytes = 8'(i + 1);
  end

  wire ends;
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
  assign has_place = !beat_in_first || frames != 16'(FRAMES);
`endif
  assign s_axis_tready = buffer_ready && has_place;
  assign beat_in = s_axis_tvalid && s_axis_tready;
  assign packet_ends = ends && !is_flush;

  always_ff @(posedge clk) begin
    if (!resetn) begin
      beat_in_first <= 1;
      frames <= 0;
    end else begin
      if (beat_in) beat_in_first <= s_axis_tlast;
      if (beat_in && beat_in_first && !packet_ends) frames <= frames + 16'd1;
      if (!(beat_in && beat_in_first) && packet_ends) frames <= frames - 16'd1;
    end
  end

  wire               beat_valid;
  wire               beat_ready;
  wire [WIDTH*8-1:0] beat;
  wire [7:0]         beat_bytes;
  wire               beat_last;
  fifo #(.BITS(WIDTH * 8 + 9), .DEPTH(BUFFER)) beats (
      .clk(clk), .resetn(resetn),
      .in_valid(s_axis_tvalid && has_place), .in_ready(buffer_ready), .in({s_axis_tlast, beat_in_bytes, s_axis_tdata}),
      .out_valid(beat_valid), .out_ready(beat_ready), .out({beat_last, beat_bytes, beat})
  );

  wire        time_valid;
  wire [63:0] arrival;
  wire [15:0] port;
  wire        unused_time_ready;
  localparam int PORT_BITS = VERSION == 1 ? 0 : 16;
  wire [PORT_BITS+63:0] came;
  fifo #(.BITS(PORT_BITS + 64), .DEPTH(FRAMES)) times (
      .clk(clk), .resetn(resetn),
      .in_valid(beat_in && beat_in_first), .in_ready(unused_time_ready), .in((PORT_BITS + 64)'({s_axis_tid, s_axis_tuser})),
      .out_valid(time_valid), .out_ready(packet_ends), .out(came)
  );
  assign arrival = came[63:0];
  assign port = 16'(came >> 64);

  // There is a place for each frame that has one in `times`.
  wire              kept_there;
  wire              item_valid;
  wire [KEPT*8-1:0] kept;
  wire              unused_item_ready;
  fifo #(.BITS(KEPT * 8), .DEPTH(FRAMES)) items (
      .clk(clk), .resetn(resetn),
      .in_valid(kept_valid), .in_ready(unused_item_ready), .in(kept_in),
      .out_valid(kept_there), .out_ready(packet_ends), .out(kept)
  );

  // --- out ---

  // Stamps never run back.
  logic [63:0] last_time;
  wire  [63:0] stamp;
  assign stamp = is_flush || arrival < last_time ? last_time : arrival;

  // The item of the packet that leaves.
  wire [ITEM*8-1:0] item;
  generate
    if (VERSION == 1) begin : g_headers
      assign item_valid = kept_there;
      assign item = {kept, stamp};
    end else if (TIME_AT < 0) begin : g_fields
      assign item_valid = kept_there;
      assign item = kept;
    end else begin : g_time
      // Microseconds of a stamp that does not run back: those of this frame's arrival, or the last ones.
      wire        micros_valid;
      wire [47:0] micros_in;
      micros micros (.clk(clk), .resetn(resetn), .in_valid(beat_in && beat_in_first), .in(s_axis_tuser), .out_valid(micros_valid), .out(micros_in));
      wire        micros_there;
      wire [47:0] came_micros;
      wire        unused_micros_ready;
      fifo #(.BITS(48), .DEPTH(FRAMES)) queue (
          .clk(clk), .resetn(resetn),
          .in_valid(micros_valid), .in_ready(unused_micros_ready), .in(micros_in),
          .out_valid(micros_there), .out_ready(packet_ends), .out(came_micros)
      );
      logic [47:0] last_micros;
      wire  [47:0] now;
      assign now = arrival < last_time ? last_micros : came_micros;
      always_ff @(posedge clk) begin
        if (!resetn) last_micros <= 0;
        else if (packet_ends) last_micros <= now;
      end
      assign item_valid = kept_there && micros_there;
      for (genvar i = 0; i < ITEM; i++) begin : g_byte
        if (i >= TIME_AT && i < TIME_AT + 6) begin : g_of_time
          assign item[8*i +: 8] = now[8*(TIME_AT+5-i) +: 8];
        end else begin : g_of_packet
          assign item[8*i +: 8] = kept[8*i +: 8];
        end
      end
    end
  endgenerate

  // The next packet's core, and how many packets it had; a flush goes to each, from 0 on.
  logic [15:0] core;
  logic [31:0] turn;
  logic [15:0] flush_core;

  // What a receiver is told of its packet's fragments, although it would find this one itself: as `paceline sequence` does.
  // Of a frame that is longer than the buffer it is not known yet.
  wire [7:0] malformed_code;
  wire [6:0] refused;
  assign malformed_code = kept[KEPT*8-1 -: 8];
  assign refused = VERSION == 1 && !is_flush && item_valid && malformed_code == parsed::FRAGMENT_OVERFLOW ? malformed_code[6:0] : 7'd0;

  wire [PREFIX*8-1:0] prefix;
  history #(
      .CORES(CORES), .VERSION(VERSION), .LAYOUT(LAYOUT), .ITEM(ITEM), .HAS_ETHERNET(HAS_ETHERNET), .ROWS_IN_RAM(ROWS_IN_RAM), .PREFIX(PREFIX)
  ) history (
      .clk(clk), .resetn(resetn),
      .in_valid(packet_ends), .in(item),
      .time_ns(stamp), .refused(refused), .is_flush(is_flush), .core(is_flush ? flush_core : core), .port(port), .turn(turn),
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
      turn <= 0;
    end else if (packet_ends) begin
      last_time <= stamp;
      core <= core + 16'd1 == 16'(CORES) ? 16'd0 : core + 16'd1;
      if (core + 16'd1 == 16'(CORES)) turn <= turn + 32'd1;
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
      if (!is_running && frames == 0 && !is_flushed && FLUSH_CYCLES != 0 && idle >= 32'(FLUSH_CYCLES)) begin
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
          .item_valid(packet_ends), .item(item),
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
      if (beat_in && beat_in_first) assert (unused_time_ready);
      if (kept_valid) assert (unused_item_ready);
    end
  end
`endif

endmodule
