// Reads TCP options, and makes digests of quoted addresses: a packet a cycle, no back-pressure, out 7 cycles later.
module options (
    input  wire               clk,
    // Synchronous, active low. After it no packet is under way.
    input  wire               resetn,

    input  wire               in_valid,
    input  parsed::options_t  in,

    // For one cycle.
    output logic              out_valid,
    output parsed::headers_t  out
);

  localparam int STAGES = 5;

  // Stage 0 is `in`, stage STAGES has seen all 40 bytes.
  wire [STAGES:0] valid;
  assign valid[0] = in_valid;
  generate
    for (genvar s = 0; s <= STAGES; s++) begin : g_stage
      parsed::options_t packet;
      if (s == 0) begin : g_in
        assign packet = in;
      end else begin : g_after
        parsed::options_t next;
        option_bytes #(.FIRST(8 * (s - 1)), .COUNT(8)) option_bytes (.in(g_stage[s-1].packet), .out(next));
        logic is_valid;
        assign valid[s] = is_valid;
        always_ff @(posedge clk) begin
          is_valid <= resetn && valid[s-1];
          packet <= next;
        end
      end
    end
  endgenerate

  parsed::options_t seen;
  assign seen = g_stage[STAGES].packet;

  // The blocks of the SACK option, and the first half of the digest.
  logic             six_valid;
  parsed::headers_t six;
  logic             six_sack;
  logic [2:0]       six_blocks;
  logic [255:0]     six_bytes;
  logic             six_digest;
  logic [63:0]      six_low;
  logic [63:0]      six_mixed;

  function automatic logic [63:0] be64(input logic [63:0] bytes);
    be64 = {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24], bytes[39:32], bytes[47:40], bytes[55:48], bytes[63:56]};
  endfunction

  logic [63:0] high;
  assign high = be64(seen.quoted[63:0]) * 64'h9e3779b97f4a7c15;

  logic [319:0] from_blocks;
  assign from_blocks = seen.bytes >> {seen.sack_at, 3'd0};

  always_ff @(posedge clk) begin
    six_valid <= resetn && valid[STAGES];
    six <= seen.headers;
    six_sack <= seen.has_sack;
    six_blocks <= seen.sack_blocks;
    six_bytes <= from_blocks[255:0];
    six_digest <= seen.is_digest;
    six_low <= be64(seen.quoted[127:64]);
    six_mixed <= high;
  end

  // The right edge farthest behind the acknowledgment number.
  logic [31:0] farthest;
  logic [31:0] distance;
  always_comb begin
    farthest = 0;
    distance = 0;
    for (int block = 0; block < 4; block++) begin
      distance = {six_bytes[64*block + 32 +: 8], six_bytes[64*block + 40 +: 8], six_bytes[64*block + 48 +: 8],
                  six_bytes[64*block + 56 +: 8]} - six.ack;
      if (six_sack && 3'(block) < six_blocks && !distance[31] && distance > farthest) farthest = distance;
    end
  end

  logic [63:0] mixed;
  logic [63:0] digest;
  assign mixed = {six_mixed[31:0], six_mixed[63:32]} ^ six_low;
  assign digest = mixed * 64'hd6e8feb86659fd93;

  always_ff @(posedge clk) begin
    out_valid <= resetn && six_valid;
    out <= six;
    out.sack <= six.sack + farthest;
    if (six_digest) out.ack <= digest[63:32];
  end

endmodule
