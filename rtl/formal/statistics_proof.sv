// Each read of `statistics` is answered once, and its answer stays until it is taken; so is each write, with an error. Two reads, of a counter's
// lower half and then of its upper one, give the number of frames as it was at the first, also where 32 bits overflow between them.
module statistics_proof (
    input wire clk,
    input wire in_valid,
    input wire in_ready,
    input wire in_last,
    input wire out_valid,
    input wire out_ready,
    input wire out_last,
    input wire [127:0] out,
    input wire arvalid,
    input wire [7:0] araddr,
    input wire rready,
    input wire awvalid,
    input wire wvalid,
    input wire bready
);

  localparam logic [63:0] FROM = 64'h00000000fffffffe;
  logic is_reset = 1;

  wire arready;
  wire rvalid;
  wire [31:0] rdata;
  wire [1:0] rresp;
  wire awready;
  wire wready;
  wire bvalid;
  wire [1:0] bresp;
  statistics #(.WIDTH(16), .CORES(3), .FROM(FROM)) statistics (
      .clk(clk), .resetn(!is_reset),
      .s_axis_tvalid(in_valid), .s_axis_tready(in_ready), .s_axis_tkeep(16'hffff), .s_axis_tlast(in_last),
      .m_axis_tvalid(out_valid), .m_axis_tready(out_ready), .m_axis_tdata(out), .m_axis_tkeep(16'hffff), .m_axis_tlast(out_last),
      .s_axil_arvalid(arvalid), .s_axil_arready(arready), .s_axil_araddr(araddr),
      .s_axil_rvalid(rvalid), .s_axil_rready(rready), .s_axil_rdata(rdata), .s_axil_rresp(rresp),
      .s_axil_awvalid(awvalid), .s_axil_awready(awready), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
      .s_axil_bvalid(bvalid), .s_axil_bready(bready), .s_axil_bresp(bresp)
  );

  // Frames that came in, what the last read asked for, and how many frames there were at the last read of the lower half.
  logic [63:0] frames = FROM;
  logic [7:0] asked = 0;
  logic [63:0] frames_read = 0;
  logic has_read_frames = 0;
  // A read, a write is not answered yet.
  logic is_read = 0;
  logic is_written = 0;

  logic was_held = 0;
  logic [33:0] answer_before = 0;
  logic was_bheld = 0;

  always_ff @(posedge clk) begin
    is_reset <= 0;
    was_held <= !is_reset && rvalid && !rready;
    answer_before <= {rresp, rdata};
    was_bheld <= !is_reset && bvalid && !bready;
    if (!is_reset) begin
      if (in_valid && in_ready && in_last) frames <= frames + 64'd1;

      assert (rvalid == is_read);
      if (was_held) assert (rvalid && {rresp, rdata} == answer_before);
      if (rvalid && rready) is_read <= 0;
      if (arvalid && arready) begin
        assert (!is_read || rready);
        is_read <= 1;
        asked <= araddr;
        if (araddr[7:3] == 5'd2 && !araddr[2]) begin
          frames_read <= frames;
          has_read_frames <= 1;
        end else if (!(araddr[7:3] == 5'd2 && araddr[2])) has_read_frames <= 0;
      end
      if (rvalid) begin
        if (has_read_frames) assert (rdata == (asked[2] ? frames_read[63:32] : frames_read[31:0]));
        if (asked[7:2] == 6'd0) assert (rdata == 32'h504c5351);
        assert (rresp == (asked[7:2] < 6'd20 ? 2'b00 : 2'b10));
      end

      assert (bvalid == is_written);
      if (was_bheld) assert (bvalid);
      if (bvalid) assert (bresp == 2'b10);
      assert (awready == wready && (!awready || awvalid && wvalid));
      if (awready) is_written <= 1;
      else if (bready) is_written <= 0;
    end
  end

endmodule
