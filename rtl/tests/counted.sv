// For tests: the sequencer for port knocking, with `statistics` beside it. Its pins are those of both.
module counted #(
    parameter int FLUSH_CYCLES = 65536,
    parameter int CORES = 8,
    localparam int WIDTH = 64
) (
    input  wire               clk,
    input  wire               resetn,
    input  wire               s_axis_tvalid,
    output wire               s_axis_tready,
    input  wire [WIDTH*8-1:0] s_axis_tdata,
    input  wire [WIDTH-1:0]   s_axis_tkeep,
    input  wire               s_axis_tlast,
    input  wire [63:0]        s_axis_tuser,
    output wire               m_axis_tvalid,
    input  wire               m_axis_tready,
    output wire [WIDTH*8-1:0] m_axis_tdata,
    output wire [WIDTH-1:0]   m_axis_tkeep,
    output wire               m_axis_tlast,
    output wire [7:0]         m_axis_tdest,
    input  wire               s_axil_arvalid,
    output wire               s_axil_arready,
    input  wire [7:0]         s_axil_araddr,
    output wire               s_axil_rvalid,
    input  wire               s_axil_rready,
    output wire [31:0]        s_axil_rdata,
    output wire [1:0]         s_axil_rresp,
    input  wire               s_axil_awvalid,
    output wire               s_axil_awready,
    input  wire               s_axil_wvalid,
    output wire               s_axil_wready,
    output wire               s_axil_bvalid,
    input  wire               s_axil_bready,
    output wire [1:0]         s_axil_bresp
);

  sequencer_knock #(.FLUSH_CYCLES(FLUSH_CYCLES)) sequencer (
      .clk(clk), .resetn(resetn),
      .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready), .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep),
      .s_axis_tlast(s_axis_tlast), .s_axis_tuser(s_axis_tuser),
      .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready), .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep),
      .m_axis_tlast(m_axis_tlast), .m_axis_tdest(m_axis_tdest)
  );
  statistics #(.WIDTH(WIDTH), .CORES(CORES)) statistics (
      .clk(clk), .resetn(resetn),
      .s_axis_tvalid(s_axis_tvalid), .s_axis_tready(s_axis_tready), .s_axis_tkeep(s_axis_tkeep), .s_axis_tlast(s_axis_tlast),
      .m_axis_tvalid(m_axis_tvalid), .m_axis_tready(m_axis_tready), .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep),
      .m_axis_tlast(m_axis_tlast),
      .s_axil_arvalid(s_axil_arvalid), .s_axil_arready(s_axil_arready), .s_axil_araddr(s_axil_araddr),
      .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready), .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
      .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready), .s_axil_wvalid(s_axil_wvalid),
      .s_axil_wready(s_axil_wready), .s_axil_bvalid(s_axil_bvalid), .s_axil_bready(s_axil_bready), .s_axil_bresp(s_axil_bresp)
  );

endmodule
