// Parses Ethernet, VLAN tags, and the fixed part of an IPv4 or IPv6 header: crates/wire/src/parse/link.rs, ip.rs.
// Combinational: all of it lies in the first 62 bytes.
module link_ip (
    // The frame's first 64 bytes: byte i is bits 8i + 7 to 8i.
    input  wire [511:0] frame,
    // Bytes of the frame, at most 64 of them counted. What is behind them may be anything.
    input  wire [6:0]   length,
    output parsed::ip_t ip
);

  function automatic logic is_tag(input logic [15:0] ethertype);
    is_tag = ethertype == 16'h8100 || ethertype == 16'h88a8 || ethertype == 16'h9100;
  endfunction

  // EtherTypes behind the addresses, the first tag, the second one.
  logic [15:0] type_0;
  logic [15:0] type_1;
  logic [15:0] type_2;
  assign type_0 = {frame[8*12 +: 8], frame[8*13 +: 8]};
  assign type_1 = {frame[8*16 +: 8], frame[8*17 +: 8]};
  assign type_2 = {frame[8*20 +: 8], frame[8*21 +: 8]};

  logic [1:0]  tags;
  logic [15:0] ethertype;
  logic [7:0]  link_error;
  always_comb begin
    tags = 0;
    ethertype = type_0;
    link_error = 0;
    if (length < 14) begin
      link_error = parsed::LINK_TRUNCATED;
    end else if (is_tag(type_0)) begin
      if (length < 18) begin
        link_error = parsed::LINK_TRUNCATED;
      end else begin
        tags = 1;
        ethertype = type_1;
        if (is_tag(type_1)) begin
          if (length < 22) begin
            link_error = parsed::LINK_TRUNCATED;
          end else begin
            tags = 2;
            ethertype = type_2;
            if (is_tag(type_2)) link_error = parsed::TOO_MANY_VLAN_TAGS;
          end
        end
      end
    end
  end

  // The IP header's first 40 bytes, and how many of them are there.
  logic [4:0]   l3_offset;
  logic [319:0] h;
  logic [6:0]   left;
  assign l3_offset = 5'd14 + {1'b0, tags, 2'b0};
  assign h = tags == 0 ? frame[8*14 +: 320] : tags == 1 ? frame[8*18 +: 320] : frame[8*22 +: 320];
  assign left = length < {2'b0, l3_offset} ? 7'd0 : length - {2'b0, l3_offset};

  logic [127:0] src6;
  logic [127:0] dst6;
  assign src6 = h[8*8 +: 128];
  assign dst6 = h[8*24 +: 128];

  logic is_4;
  logic is_6;
  logic is_other_version;
  assign is_4 = link_error == 0 && ethertype == 16'h0800;
  assign is_6 = link_error == 0 && ethertype == 16'h86dd;
  assign is_other_version = left != 0 && h[7:4] != (is_4 ? 4'd4 : 4'd6);

  always_comb begin
    ip = '0;
    ip.error = link_error;
    ip.l3_offset = length < 14 ? 5'd0 : l3_offset;
    ip.is_tagged = tags != 0;
    ip.tci = tags != 0 ? {frame[8*14 +: 8], frame[8*15 +: 8]} : 16'd0;
    if (is_4 || is_6) begin
      if (is_other_version) begin
        ip.error = parsed::IP_VERSION;
      end else begin
        ip.is_ipv4 = is_4;
        ip.is_ipv6 = is_6;
        ip.has_fixed = left >= (is_4 ? 7'd20 : 7'd40);
        if (!ip.has_fixed) ip.error = is_4 ? parsed::IPV4_TRUNCATED : parsed::IPV6_TRUNCATED;
      end
    end
    if (ip.has_fixed && is_4) begin
      ip.ihl = h[3:0];
      ip.tos = h[8*1 +: 8];
      ip.length = {h[8*2 +: 8], h[8*3 +: 8]};
      ip.fragment = {h[8*6 +: 8], h[8*7 +: 8]};
      ip.ttl = h[8*8 +: 8];
      ip.protocol = h[8*9 +: 8];
      ip.src = {h[8*12 +: 32], 16'hffff, 80'd0};
      ip.dst = {h[8*16 +: 32], 16'hffff, 80'd0};
      if (h[3:0] < 5) ip.error = parsed::IPV4_HEADER_LENGTH;
    end
    if (ip.has_fixed && is_6) begin
      ip.tos = {h[3:0], h[15:12]};
      ip.length = {h[8*4 +: 8], h[8*5 +: 8]};
      ip.protocol = h[8*6 +: 8];
      ip.ttl = h[8*7 +: 8];
      ip.src = src6;
      ip.dst = dst6;
      ip.is_mapped = src6[95:0] == {16'hffff, 80'd0} || dst6[95:0] == {16'hffff, 80'd0};
    end
  end

endmodule
