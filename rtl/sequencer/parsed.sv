// What the stages of the parser hand on. Numbers are in host order; of addresses bits 7 to 0 are the first byte.
package parsed;

  // Reasons for which a packet is malformed: crates/wire/src/malformed.rs.
  localparam logic [7:0] LINK_TRUNCATED = 1;
  localparam logic [7:0] TOO_MANY_VLAN_TAGS = 2;
  localparam logic [7:0] IP_VERSION = 3;
  localparam logic [7:0] IPV4_TRUNCATED = 4;
  localparam logic [7:0] IPV4_HEADER_LENGTH = 5;
  localparam logic [7:0] IPV4_TOTAL_LENGTH = 6;
  localparam logic [7:0] IPV6_TRUNCATED = 7;
  localparam logic [7:0] IPV6_PAYLOAD_LENGTH = 8;
  localparam logic [7:0] IPV6_EXTENSION_TRUNCATED = 9;
  localparam logic [7:0] TOO_MANY_IPV6_EXTENSIONS = 10;
  localparam logic [7:0] FRAGMENT_OVERFLOW = 11;
  localparam logic [7:0] TCP_TRUNCATED = 12;
  localparam logic [7:0] TCP_DATA_OFFSET = 13;
  localparam logic [7:0] UDP_TRUNCATED = 14;
  localparam logic [7:0] UDP_LENGTH = 15;
  localparam logic [7:0] ICMP_TRUNCATED = 16;
  localparam logic [7:0] PORTS_TRUNCATED = 17;
  localparam logic [7:0] MAPPED_ADDRESS = 18;

  // Words of the transport header that are kept: of an ICMP error 2, a quoted IPv4 header of 15, and 2 behind it.
  localparam int L4_WORDS = 19;

  // The link header, and the fixed part of the IP header: all of it lies in a frame's first 62 bytes.
  typedef struct packed {
    logic [7:0]   error;      // found so far; 0 if none
    logic         is_ipv4;    // an IPv4 header begins here
    logic         is_ipv6;    // an IPv6 header begins here
    logic         has_fixed;  // the fixed part is there, and so are the fields below
    logic         is_tagged;
    logic [15:0]  tci;        // of the outer tag
    logic [4:0]   l3_offset;
    logic [3:0]   ihl;        // IPv4: header length in words
    logic [15:0]  length;     // IPv4: total length; IPv6: payload length
    logic [15:0]  fragment;   // IPv4: flags and offset
    logic [7:0]   tos;
    logic [7:0]   ttl;
    logic [7:0]   protocol;   // IPv6: the first next header
    logic [127:0] src;
    logic [127:0] dst;
    logic         is_mapped;  // IPv6 with an IPv4-mapped address
  } ip_t;

  // How far the walk over IPv6 extension headers is.
  typedef struct packed {
    logic         is_walking; // the transport header is ahead
    logic [9:0]   left;       // words up to the next header
    logic [1:0]   kind;       // what the next header is: a KIND below
    logic [3:0]   count;      // extension headers so far
    logic         is_over;    // there is one too many
    logic [7:0]   protocol;   // of the next header
    logic [7:0]   protocol_before;
    logic [16:0]  start;      // where the last extension header begins in the frame
    logic [16:0]  finish;     // where it ends, and the next header begins
    logic         is_first;   // a first fragment
    logic         is_first_before;
    logic         is_later;   // a later fragment
    logic [15:0]  offset;     // of the fragment, bytes
  } walk_t;

  localparam logic [1:0] KIND_NONE = 0; // no extension header
  localparam logic [1:0] KIND_OPTIONS = 1; // length in 8-byte words, less 1
  localparam logic [1:0] KIND_FRAGMENT = 2; // 8 bytes
  localparam logic [1:0] KIND_AUTHENTICATION = 3; // length in 4-byte words, less 2

  function automatic logic [1:0] kind_of(input logic [7:0] protocol);
    case (protocol)
      8'd0, 8'd43, 8'd60, 8'd135, 8'd139, 8'd140: kind_of = KIND_OPTIONS;
      8'd44: kind_of = KIND_FRAGMENT;
      8'd51: kind_of = KIND_AUTHENTICATION;
      default: kind_of = KIND_NONE;
    endcase
  endfunction

  // What is known of a packet once its last byte is there.
  typedef struct packed {
    ip_t          ip;
    walk_t        walk;
    logic [16:0]  length;     // bytes of the frame
    logic [L4_WORDS*32-1:0] l4; // from the transport header on; byte i is bits 8i + 7 to 8i
  } gathered_t;

  // The header vector (crates/wire/src/headers.rs): fields as there.
  typedef struct packed {
    logic [7:0]   malformed_code; // byte 63
    logic [7:0]   marks;
    logic [7:0]   tcp_shape;
    logic [7:0]   l3_offset;
    logic [7:0]   tos;
    logic [7:0]   ttl;
    logic [7:0]   tcp_flags;
    logic [7:0]   protocol;
    logic [15:0]  l4_offset;
    logic [15:0]  l3_len;
    logic [15:0]  vlan;
    logic [15:0]  window;
    logic [15:0]  dst_port;
    logic [15:0]  src_port;
    logic [31:0]  sack;
    logic [31:0]  ack;
    logic [31:0]  seq;
    logic [127:0] dst;
    logic [127:0] src;            // byte 0
  } headers_t;

  localparam logic [7:0] MARK_IPV4 = 8'h01;
  localparam logic [7:0] MARK_IPV6 = 8'h02;
  localparam logic [7:0] MARK_FIRST_FRAGMENT = 8'h04;
  localparam logic [7:0] MARK_LATER_FRAGMENT = 8'h08;
  localparam logic [7:0] MARK_VLAN = 8'h10;

  // A packet on its way through the stages that read TCP options, and what they have found.
  typedef struct packed {
    headers_t     headers;
    logic [319:0] bytes;      // the options; byte i is bits 8i + 7 to 8i
    logic [5:0]   length;     // bytes of options
    logic         is_over;    // their end was met
    logic [5:0]   skip;       // bytes up to the next option
    logic         has_sack;
    logic [5:0]   sack_at;    // where the blocks of the last SACK option begin
    logic [2:0]   sack_blocks;
    logic         is_digest;  // `headers.ack` is to be the digest of the address in `quoted`
    logic [127:0] quoted;
  } options_t;

endpackage
