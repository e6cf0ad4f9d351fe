// One step of the walk over IPv6 extension headers: one 4-byte word of the frame. A beat has a chain of these.
// Combinational.
module walk_word (
    input  parsed::walk_t from,
    // The word: byte i is bits 8i + 7 to 8i.
    input  wire [31:0]    word,
    // Where the word begins in the frame.
    input  wire [16:0]    position,
    // Whether all four bytes are in the frame, and in the IP packet.
    input  wire           is_inside,
    output parsed::walk_t to,
    // The transport header begins with this word.
    output wire           is_transport
);

  // Words of this header, whatever kind it is.
  logic [9:0] options_words;
  logic [9:0] authentication_words;
  assign options_words = {1'b0, word[15:8], 1'b0} + 10'd2;
  assign authentication_words = {2'b0, word[15:8]} + 10'd2;

  logic [9:0] words;
  assign words = from.kind == parsed::KIND_OPTIONS ? options_words
      : from.kind == parsed::KIND_FRAGMENT ? 10'd2 : authentication_words;

  logic is_header;
  logic is_extension;
  logic is_fragment;
  assign is_header = from.is_walking && from.left == 0;
  assign is_extension = is_header && from.kind != parsed::KIND_NONE && is_inside;
  assign is_transport = is_header && from.kind == parsed::KIND_NONE;
  assign is_fragment = is_extension && from.kind == parsed::KIND_FRAGMENT && from.count != 8;

  logic [15:0] offset;
  assign offset = {word[23:16], word[31:27], 3'b0};

  always_comb begin
    to = from;
    if (from.is_walking && from.left != 0) to.left = from.left - 1'b1;
    if (is_transport) to.is_walking = 0;
    if (is_extension) begin
      if (from.count == 8) begin
        to.is_walking = 0;
        to.is_over = 1;
      end else begin
        to.left = words - 1'b1;
        to.kind = parsed::kind_of(word[7:0]);
        to.count = from.count + 1'b1;
        to.protocol = word[7:0];
        to.protocol_before = from.protocol;
        to.start = from.finish;
        to.finish = position + {5'b0, words, 2'b0};
        to.is_first_before = from.is_first;
      end
    end
    if (is_fragment) begin
      to.offset = offset;
      if (offset != 0) begin
        // Behind a second fragment header, the later position is the one that counts.
        to.is_first = 0;
        to.is_later = 1;
        to.is_walking = 0;
      end else if (word[24]) begin
        to.is_first = 1;
      end
    end
  end

endmodule
