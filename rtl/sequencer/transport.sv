// Makes the header vector of what the walker gathered: the IP header's lengths and fragments, then TCP, UDP, ICMP, SCTP
// and DCCP (crates/wire/src/parse/ip.rs, transport.rs, icmp.rs). TCP options and digests of addresses are left to later
// stages. Combinational.
module transport (
    input  parsed::gathered_t in,
    output parsed::options_t  out
);

  function automatic logic [15:0] be16(input logic [15:0] bytes);
    be16 = {bytes[7:0], bytes[15:8]};
  endfunction

  function automatic logic [31:0] be32(input logic [31:0] bytes);
    be32 = {bytes[7:0], bytes[15:8], bytes[23:16], bytes[31:24]};
  endfunction

  parsed::ip_t ip;
  parsed::walk_t walk;
  logic [parsed::L4_WORDS*32-1:0] l4;
  assign ip = in.ip;
  assign walk = in.walk;
  assign l4 = in.l4;

  // --- the IP packet's extent ---

  logic [16:0] l3;
  logic [16:0] on_wire;  // bytes behind the link header
  logic [16:0] l3_len;
  logic [16:0] packet_end;
  assign l3 = {12'd0, ip.l3_offset};
  assign on_wire = in.length - l3;
  assign l3_len = !ip.has_fixed || ip.length == 0 ? on_wire : ip.is_ipv4 ? {1'b0, ip.length} : {1'b0, ip.length} + 17'd40;
  assign packet_end = l3 + l3_len;

  logic [16:0] ihl_bytes;
  assign ihl_bytes = {11'd0, ip.ihl, 2'b0};

  // The last extension header goes past the packet's end.
  logic is_cut;
  assign is_cut = walk.count != 0 && walk.finish > packet_end;

  // Bytes in front of which a fragment's payload begins, and of the packet, are no more than a datagram can have.
  logic [17:0] fragment_end;
  assign fragment_end = {2'b0, walk.offset} + {1'b0, l3_len};

  logic [7:0]  ip_error;
  logic [7:0]  protocol;
  logic [16:0] l4_offset;
  logic        is_first;
  logic        is_later;
  always_comb begin
    ip_error = ip.error;
    protocol = ip.protocol;
    l4_offset = l3;
    is_first = 0;
    is_later = 0;
    if (ip.error == 0 && ip.is_ipv4) begin
      if (ihl_bytes > on_wire) begin
        ip_error = parsed::IPV4_TRUNCATED;
      end else begin
        l4_offset = l3 + ihl_bytes;
        if (l3_len < ihl_bytes || packet_end > in.length) begin
          ip_error = parsed::IPV4_TOTAL_LENGTH;
        end else begin
          is_first = walk.is_first;
          is_later = walk.is_later;
          if (is_later && fragment_end > 18'd65535) ip_error = parsed::FRAGMENT_OVERFLOW;
        end
      end
    end else if (ip.error == 0 && ip.is_ipv6) begin
      l4_offset = l3 + 17'd40;
      if (packet_end > in.length) begin
        ip_error = parsed::IPV6_PAYLOAD_LENGTH;
      end else if (ip.is_mapped) begin
        ip_error = parsed::MAPPED_ADDRESS;
      end else begin
        protocol = is_cut ? walk.protocol_before : walk.protocol;
        l4_offset = is_cut ? walk.start : walk.finish;
        is_first = is_cut ? walk.is_first_before : walk.is_first;
        is_later = !is_cut && walk.is_later;
        if (is_cut) ip_error = parsed::IPV6_EXTENSION_TRUNCATED;
        else if (is_later) begin
          if (fragment_end > 18'd65583) ip_error = parsed::FRAGMENT_OVERFLOW;
        end else if (parsed::kind_of(walk.protocol) != parsed::KIND_NONE) begin
          ip_error = walk.count == 8 ? parsed::TOO_MANY_IPV6_EXTENSIONS : parsed::IPV6_EXTENSION_TRUNCATED;
        end
      end
    end
  end

  // --- the transport header ---

  logic has_transport;
  logic [16:0] left;
  assign has_transport = (ip.is_ipv4 || ip.is_ipv6) && ip_error == 0 && !is_later;
  assign left = packet_end - l4_offset;

  // What an ICMP error quotes: an IP header 8 bytes behind, and 8 bytes of what that has in it.
  logic [479:0] quote;
  logic [3:0]   quote_ihl;
  logic [63:0]  quoted_4;
  logic [63:0]  quoted;
  assign quote = l4[8*8 +: 480];
  assign quote_ihl = quote[3:0];
  always_comb begin
    quoted_4 = '0;
    for (int words = 5; words < 16; words++) if (quote_ihl == 4'(words)) quoted_4 = l4[8*8 + 32*words +: 64];
  end
  assign quoted = ip.is_ipv4 ? quoted_4 : l4[8*48 +: 64];

  function automatic logic is_request(input logic [7:0] kind);
    is_request = kind == 8'd8 || kind == 8'd13;
  endfunction
  function automatic logic is_reply(input logic [7:0] kind);
    is_reply = kind == 8'd0 || kind == 8'd14;
  endfunction

  logic [7:0]   icmp_type;
  logic         has_quote;
  logic [7:0]   quoted_protocol;
  logic [127:0] quoted_src;
  logic [127:0] quoted_dst;
  logic [1:0]   quoted_kind;  // TCP, UDP, a request, a reply
  logic         is_quoted_kind;
  logic         is_port_kind;
  assign icmp_type = l4[7:0];
  assign quoted_protocol = ip.is_ipv4 ? quote[8*9 +: 8] : quote[8*6 +: 8];
  assign quoted_src = ip.is_ipv4 ? {quote[8*12 +: 32], 16'hffff, 80'd0} : quote[8*8 +: 128];
  assign quoted_dst = ip.is_ipv4 ? {quote[8*16 +: 32], 16'hffff, 80'd0} : quote[8*24 +: 128];
  assign is_port_kind = quoted_protocol == 8'd6 || quoted_protocol == 8'd17;
  always_comb begin
    is_quoted_kind = is_port_kind;
    quoted_kind = quoted_protocol == 8'd17 ? 2'd1 : 2'd0;
    if (ip.is_ipv4 && quoted_protocol == 8'd1) begin
      is_quoted_kind = is_request(quoted[7:0]) || is_reply(quoted[7:0]);
      quoted_kind = is_request(quoted[7:0]) ? 2'd2 : 2'd3;
    end
  end
  always_comb begin
    if (ip.is_ipv4) begin
      has_quote = (icmp_type == 8'd3 || icmp_type == 8'd4 || icmp_type == 8'd11 || icmp_type == 8'd12)
          && quote[7:4] == 4'd4 && quote_ihl >= 5 && {quote[8*6 +: 5], quote[8*7 +: 8]} == 0
          && left >= 17'd16 + {11'd0, quote_ihl, 2'b0};
    end else begin
      has_quote = icmp_type >= 8'd1 && icmp_type <= 8'd4 && quote[7:4] == 4'd6 && left >= 17'd56;
    end
    if (!is_quoted_kind || quoted_src != ip.dst) has_quote = 0;
  end

  logic is_icmp;
  logic is_query;
  assign is_icmp = protocol == 8'd1;
  assign is_query = is_icmp ? is_request(icmp_type) || is_reply(icmp_type) : icmp_type == 8'd128 || icmp_type == 8'd129;

  logic [3:0]  tcp_words;
  logic [15:0] udp_length;
  assign tcp_words = l4[8*12+4 +: 4];
  assign udp_length = be16(l4[8*4 +: 16]);

  parsed::headers_t h;
  logic [5:0] options;
  logic is_digest;
  always_comb begin
    h = '0;
    options = 0;
    is_digest = 0;
    h.src = ip.src;
    h.dst = ip.dst;
    h.vlan = ip.tci;
    h.l3_len = l3_len[16] ? 16'hffff : l3_len[15:0];
    h.l4_offset = l4_offset[15:0];
    h.protocol = protocol;
    h.ttl = ip.ttl;
    h.tos = ip.tos;
    h.l3_offset = {3'd0, ip.l3_offset};
    h.marks = (ip.is_ipv4 ? parsed::MARK_IPV4 : 8'd0) | (ip.is_ipv6 ? parsed::MARK_IPV6 : 8'd0)
        | (is_first ? parsed::MARK_FIRST_FRAGMENT : 8'd0) | (is_later ? parsed::MARK_LATER_FRAGMENT : 8'd0)
        | (ip.is_tagged ? parsed::MARK_VLAN : 8'd0);
    h.malformed_code = ip_error;
    if (has_transport) begin
      case (protocol)
        8'd6:
        if (left < 20) begin
          h.malformed_code = parsed::TCP_TRUNCATED;
        end else begin
          h.src_port = be16(l4[0 +: 16]);
`ifdef FAULT_PORTS
          // Planted: the source's port in place of the destination's.
          h.dst_port = be16(l4[0 +: 16]);
`else
          h.dst_port = be16(l4[8*2 +: 16]);
`endif
          h.seq = be32(l4[8*4 +: 32]);
          h.ack = be32(l4[8*8 +: 32]);
          h.sack = h.ack;
          h.tcp_flags = l4[8*13 +: 8];
          h.window = be16(l4[8*14 +: 16]);
          h.tcp_shape = 8'h0f;
          if (tcp_words < 5 || {11'd0, tcp_words, 2'b0} > left) begin
            h.malformed_code = parsed::TCP_DATA_OFFSET;
          end else begin
            h.tcp_shape = {tcp_words, 4'hf};
            options = {tcp_words, 2'b0} - 6'd20;
          end
        end
        8'd17:
        if (left < 8) begin
          h.malformed_code = parsed::UDP_TRUNCATED;
        end else begin
          h.src_port = be16(l4[0 +: 16]);
          h.dst_port = be16(l4[8*2 +: 16]);
          h.seq = {16'd0, udp_length};
          h.tcp_shape = 8'h20;
          // The length of a jumbogram's datagram is 0; that of a first fragment's is the whole datagram's.
          if (!(udp_length == 0 && ip.is_ipv6 && ip.length == 0)
              && (udp_length < 8 || ({1'b0, udp_length} > left && !is_first)))
            h.malformed_code = parsed::UDP_LENGTH;
        end
        8'd1, 8'd58:
        if (left < 8) begin
          h.malformed_code = parsed::ICMP_TRUNCATED;
        end else begin
          h.seq = {be16(l4[0 +: 16]), is_query ? be16(l4[8*4 +: 16]) : 16'd0};
          h.tcp_shape = 8'h20;
          if (is_icmp && ip.is_ipv4 && is_query) begin
            if (is_request(icmp_type)) h.src_port = be16(l4[8*4 +: 16]);
            else h.dst_port = be16(l4[8*4 +: 16]);
            h.tcp_shape = is_request(icmp_type) ? 8'h21 : 8'h22;
          end else if (is_icmp == ip.is_ipv4 && has_quote) begin
            // The quoted packet's ports, the other way round.
            if (is_port_kind || quoted_kind == 2'd3) h.src_port = be16(is_port_kind ? quoted[16 +: 16] : quoted[32 +: 16]);
            if (is_port_kind || quoted_kind == 2'd2) h.dst_port = be16(is_port_kind ? quoted[0 +: 16] : quoted[32 +: 16]);
            // Of an address that is not IPv4, a later stage makes a digest.
            h.ack = be32(quoted_dst[127:96]);
            is_digest = quoted_dst[95:0] != {16'hffff, 80'd0};
            h.tcp_shape = {4'h2, quoted_dst != ip.src, 1'b1, quoted_kind};
          end
        end
        8'd132, 8'd33:
        if (left < 4) begin
          h.malformed_code = parsed::PORTS_TRUNCATED;
        end else begin
          h.src_port = be16(l4[0 +: 16]);
          h.dst_port = be16(l4[8*2 +: 16]);
        end
        default: ;
      endcase
    end
  end

  always_comb begin
    out = '0;
    out.headers = h;
    out.bytes = l4[8*20 +: 320];
    out.length = options;
    out.is_digest = is_digest;
    out.quoted = quoted_dst;
  end

endmodule
