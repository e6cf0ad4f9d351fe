// Takes a frame beat by beat, finds where its transport header begins, and keeps what is read of it: one beat a cycle,
// no back-pressure. What it has gathered is there two cycles after the frame's last beat.
module walker #(
    // Bytes of a beat: 64 or 128.
    parameter int WIDTH = 64
) (
    input  wire                clk,
    // Synchronous, active low. After it no frame has begun.
    input  wire                resetn,

    // A beat; all but a frame's last are full.
    input  wire                beat_valid,
    input  wire [WIDTH*8-1:0]  beat,
    input  wire [7:0]          beat_bytes,
    input  wire                beat_first,
    input  wire                beat_last,

    // For one cycle.
    output logic               out_valid,
    output parsed::gathered_t  out
);

  localparam int UNITS = WIDTH / 4;

  // Headers begin 2 bytes behind a multiple of 4, from byte 14 on. So the words of a beat are those from 2 bytes before it.
  logic               one_valid;
  logic [WIDTH*8-1:0] one_words;
  logic [7:0]         one_bytes;
  logic               one_first;
  logic               one_last;
  parsed::ip_t        one_ip;
  logic [15:0]        carry;

  parsed::ip_t first_ip;
  link_ip link_ip (
      .frame (beat[511:0]),
      .length(beat_bytes > 64 ? 7'd64 : beat_bytes[6:0]),
      .ip    (first_ip)
  );

  always_ff @(posedge clk) begin
    one_valid <= resetn && beat_valid;
    if (beat_valid) begin
      one_words <= {beat[WIDTH*8-17:0], carry};
      carry <= beat[WIDTH*8-1 -: 16];
      one_bytes <= beat_bytes;
      one_first <= beat_first;
      one_last <= beat_last;
      if (beat_first) begin
        one_ip <= first_ip;
      end
    end
  end

  // Where the walk begins: behind the fixed header and IPv4's options.
  logic [16:0] l3;
  logic [16:0] l4;
  assign l3 = {12'd0, one_ip.l3_offset};
  assign l4 = l3 + (one_ip.is_ipv4 ? {11'd0, one_ip.ihl, 2'b0} : 17'd40);

  parsed::walk_t begun;
  always_comb begin
    begun = '0;
    begun.is_walking = one_ip.has_fixed && one_ip.error == 0;
    // From the word at byte -2 on.
    begun.left = l4[11:2] + 1'b1;
    begun.kind = one_ip.is_ipv6 ? parsed::kind_of(one_ip.protocol) : parsed::KIND_NONE;
    begun.protocol = one_ip.protocol;
    begun.protocol_before = one_ip.protocol;
    begun.start = l4;
    begun.finish = l4;
    if (one_ip.is_ipv4) begin
      begun.offset = {one_ip.fragment[12:0], 3'b0};
      begun.is_later = one_ip.fragment[12:0] != 0;
      begun.is_first = one_ip.fragment[12:0] == 0 && one_ip.fragment[13];
      begun.is_first_before = begun.is_first;
    end
  end

  // Where the IPv6 packet ends, if its header says so.
  logic [17:0] packet_end;
  assign packet_end = one_ip.length == 0 ? '1 : {1'b0, l3} + 18'd40 + {2'b0, one_ip.length};

  // Where the beat begins in the frame.
  logic [16:0] base_next;
  logic [16:0] base;
  assign base = one_first ? 17'd0 : base_next;

  parsed::walk_t walk_held;
  parsed::walk_t walk_in;
  parsed::walk_t walk_out;
  assign walk_in = one_first ? begun : walk_held;

  wire [UNITS-1:0] found;
  generate
    for (genvar u = 0; u < UNITS; u++) begin : g_word
      parsed::walk_t from;
      parsed::walk_t to;
      wire [16:0] position;
      wire is_inside;
      if (u == 0) begin : g_from
        assign from = walk_in;
      end else begin : g_from
        assign from = g_word[u-1].to;
      end
      assign position = base + 17'(4 * u) - 17'd2;
      assign is_inside = one_bytes >= 8'(4 * u + 2) && {1'b0, position} + 18'd4 <= packet_end;
      walk_word walk_word (
          .from        (from),
          .word        (one_words[32*u +: 32]),
          .position    (position),
          .is_inside   (is_inside),
          .to          (to),
          .is_transport(found[u])
      );
    end
  endgenerate
  assign walk_out = g_word[UNITS-1].to;

  // The transport header begins at word `at` of this beat.
  logic [5:0] at;
  always_comb begin
    at = 0;
    for (int u = 0; u < UNITS; u++) if (found[u]) at = 6'(u);
  end

  // Words of the transport header that are kept.
  logic [5:0] kept_next;
  logic [5:0] kept;
  assign kept = one_first ? 6'd0 : kept_next;

  logic [parsed::L4_WORDS*32-1:0] l4_next;
  logic [parsed::L4_WORDS*32-1:0] l4_words;
  logic [UNITS*32+parsed::L4_WORDS*32-1:0] from_here;
  logic [UNITS*32+parsed::L4_WORDS*32-1:0] behind_kept;
  assign from_here = {{parsed::L4_WORDS*32{1'b0}}, one_words} >> {at, 5'd0};
  assign behind_kept = {{parsed::L4_WORDS*32{1'b0}}, one_words} << {kept, 5'd0};
  always_comb begin
    l4_words = one_first ? '0 : l4_next;
    if (found != 0) l4_words = from_here[parsed::L4_WORDS*32-1:0];
    else if (kept != 0) l4_words = l4_words | behind_kept[parsed::L4_WORDS*32-1:0];
  end

  logic [16:0] length;
  assign length = base + {9'd0, one_bytes};

  always_ff @(posedge clk) begin
    out_valid <= resetn && one_valid && one_last;
    if (one_valid) begin
      base_next <= base + 17'(WIDTH);
      walk_held <= walk_out;
      l4_next <= l4_words;
      if (found != 0) kept_next <= 6'(UNITS) - at;
      else if (kept != 0) kept_next <= kept >= 6'(parsed::L4_WORDS) ? kept : kept + 6'(UNITS);
      else kept_next <= 0;
      out.ip <= one_ip;
      out.walk <= walk_out;
      out.length <= length;
      out.l4 <= l4_words;
    end
  end

endmodule
