// Counts what goes into a sequencer and comes out of it, for software that reads the counters over AXI4-Lite. It only looks on: all its inputs but
// those of the bus are the sequencer's own pins, and a sequencer without it is the same.
//
// All registers are read-only and have 32 bits; a counter has 64, in two of them, the lower half first. Reading a lower half keeps the upper half
// of the same moment for the read that follows. A write changes nothing and is answered with SLVERR, and so is a read past the end.
//
//   0x00  0x504c5351, "PLSQ"                      0x20, 0x24  packets that went out, without flushes
//   0x04  1, the number of this list              0x28, 0x2c  flushes that went out
//   0x08  CORES                                   0x30, 0x34  bytes that went out, prefixes and flushes included
//   0x0c  WIDTH                                   0x38, 0x3c  frames shorter than an Ethernet header, 14 bytes
//   0x10, 0x14  frames that came in               0x40, 0x44  cycles in which a beat was offered to it and not taken
//   0x18, 0x1c  their bytes                       0x48, 0x4c  cycles in which it offered a beat and nobody took it
//
// A frame or a packet counts when its last beat was taken, its bytes with each beat.
module statistics #(
    // Those of the sequencer.
    parameter int WIDTH = 64,
    parameter int CORES = 8,
    parameter int HAS_ETHERNET = 0,
    // Where counters begin. Proofs have them overflow 32 bits soon.
    parameter logic [63:0] FROM = 64'd0
) (
    input  wire               clk,
    // Synchronous, active low. After it all counters are FROM.
    input  wire               resetn,

    // The sequencer's pins.
    input  wire               s_axis_tvalid,
    input  wire               s_axis_tready,
    input  wire [WIDTH-1:0]   s_axis_tkeep,
    input  wire               s_axis_tlast,
    input  wire               m_axis_tvalid,
    input  wire               m_axis_tready,
    input  wire [WIDTH*8-1:0] m_axis_tdata,
    input  wire [WIDTH-1:0]   m_axis_tkeep,
    input  wire               m_axis_tlast,

    // AXI4-Lite. One read and one write are under way at most.
    input  wire               s_axil_arvalid,
    output wire               s_axil_arready,
    input  wire [7:0]         s_axil_araddr,
    output logic              s_axil_rvalid,
    input  wire               s_axil_rready,
    output logic [31:0]       s_axil_rdata,
    output logic [1:0]        s_axil_rresp,
    input  wire               s_axil_awvalid,
    output wire               s_axil_awready,
    input  wire               s_axil_wvalid,
    output wire               s_axil_wready,
    output logic              s_axil_bvalid,
    input  wire               s_axil_bready,
    output wire [1:0]         s_axil_bresp
);

  localparam int COUNTERS = 8;
  localparam logic [1:0] OKAY = 2'b00;
  localparam logic [1:0] SLVERR = 2'b10;
  // Bit 0 of byte 5 of the fixed header (docs/history-format.md).
  localparam int FLUSH_AT = 8 * (5 + (HAS_ETHERNET != 0 ? 14 : 0));

  // Beats are full but for a last one, whose bytes are the first.
  function automatic logic [7:0] bytes_of(input logic [WIDTH-1:0] keep);
    bytes_of = 8'd0;
    for (int i = 0; i < WIDTH; i++) if (keep[i]) bytes_of = 8'(i + 1);
  endfunction

  logic in_first;
  logic out_first;
  // Of the packet whose first beat went before.
  logic was_flush;
  wire is_flush;
  wire is_in;
  wire is_out;
  assign is_in = s_axis_tvalid && s_axis_tready;
  assign is_out = m_axis_tvalid && m_axis_tready;
  assign is_flush = out_first ? m_axis_tdata[FLUSH_AT] : was_flush;

  // What each counter grows by in this cycle.
  logic [7:0] more [COUNTERS];
  always_comb begin
    more[0] = 8'(is_in && s_axis_tlast);
    more[1] = is_in ? bytes_of(s_axis_tkeep) : 8'd0;
    more[2] = 8'(is_out && m_axis_tlast && !is_flush);
    more[3] = 8'(is_out && m_axis_tlast && is_flush);
    more[4] = is_out ? bytes_of(m_axis_tkeep) : 8'd0;
    more[5] = 8'(is_in && s_axis_tlast && in_first && bytes_of(s_axis_tkeep) < 8'd14);
`ifdef FAULT_STALLED
    // Planted: a beat that is taken counts as one that waits.
    more[6] = 8'(s_axis_tvalid);
`else
    more[6] = 8'(s_axis_tvalid && !s_axis_tready);
`endif
    more[7] = 8'(m_axis_tvalid && !m_axis_tready);
  end

  logic [63:0] counters [COUNTERS];
  generate
    for (genvar i = 0; i < COUNTERS; i++) begin : g_counter
      always_ff @(posedge clk) begin
        if (!resetn) counters[i] <= FROM;
        else counters[i] <= counters[i] + {56'd0, more[i]};
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (!resetn) begin
      in_first <= 1'b1;
      out_first <= 1'b1;
      was_flush <= 1'b0;
    end else begin
      if (is_in) in_first <= s_axis_tlast;
      if (is_out) out_first <= m_axis_tlast;
      if (is_out && out_first) was_flush <= is_flush;
    end
  end

  // --- reads ---

  wire is_read;
  wire [5:0] word;
  assign s_axil_arready = resetn && (!s_axil_rvalid || s_axil_rready);
  assign is_read = s_axil_arvalid && s_axil_arready;
  assign word = s_axil_araddr[7:2];

  wire [5:0] from_first;
  wire [63:0] counter;
  assign from_first = word - 6'd4;
  assign counter = counters[from_first[3:1]];

  logic [31:0] upper;
  always_ff @(posedge clk) begin
    if (!resetn) begin
      s_axil_rvalid <= 1'b0;
      s_axil_rdata <= 32'd0;
      s_axil_rresp <= OKAY;
      upper <= 32'd0;
    end else begin
      if (is_read) begin
        s_axil_rvalid <= 1'b1;
        s_axil_rresp <= OKAY;
        if (word == 6'd0) s_axil_rdata <= 32'h504c5351;
        else if (word == 6'd1) s_axil_rdata <= 32'd1;
        else if (word == 6'd2) s_axil_rdata <= 32'(CORES);
        else if (word == 6'd3) s_axil_rdata <= 32'(WIDTH);
        else if (from_first < 6'(2 * COUNTERS)) begin
`ifdef FAULT_UPPER
          // Planted: the upper half is that of the moment in which it is read.
          s_axil_rdata <= from_first[0] ? counter[63:32] : counter[31:0];
`else
          s_axil_rdata <= from_first[0] ? upper : counter[31:0];
`endif
          if (!from_first[0]) upper <= counter[63:32];
        end else begin
          s_axil_rdata <= 32'd0;
          s_axil_rresp <= SLVERR;
        end
      end else if (s_axil_rready) begin
        s_axil_rvalid <= 1'b0;
      end
    end
  end

  // --- writes ---

  // Address and data are taken together.
  wire is_write;
  assign is_write = resetn && s_axil_awvalid && s_axil_wvalid && (!s_axil_bvalid || s_axil_bready);
  assign s_axil_awready = is_write;
  assign s_axil_wready = is_write;
  assign s_axil_bresp = SLVERR;
  always_ff @(posedge clk) begin
    if (!resetn) s_axil_bvalid <= 1'b0;
    else if (is_write) s_axil_bvalid <= 1'b1;
    else if (s_axil_bready) s_axil_bvalid <= 1'b0;
  end

endmodule
