// A memory with a port that writes some bytes of a word and a port that reads. A word that is read and written in one cycle is read as it was before.
module row_memory #(
    // Bytes of a word.
    parameter int WIDTH = 64,
    // Words, and bits of a word's number.
    parameter int DEPTH = 2,
    parameter int BITS = 1,
    // 1: block RAM. 2: RAM of look-up tables.
    parameter int KIND = 1
) (
    input  wire                clk,

    // Byte i is written, which is bits 8i + 7 to 8i.
    input  wire [WIDTH-1:0]    write,
    input  wire [BITS-1:0]     write_at,
    input  wire [WIDTH*8-1:0]  in,

    // `out` has the word a cycle later, until the next one is read.
    input  wire                read,
    input  wire [BITS-1:0]     read_at,
    output logic [WIDTH*8-1:0] out
);

  // Four bytes each, as block RAMs have them.
  generate
    for (genvar at = 0; at < WIDTH; at += 4) begin : g_part
      if (KIND == 1) begin : g_block
        (* ram_style = "block" *) logic [31:0] words [DEPTH];
        always_ff @(posedge clk) begin
          for (int i = 0; i < 4; i++) if (write[at+i]) words[write_at][8*i +: 8] <= in[8*(at+i) +: 8];
          if (read) out[8*at +: 32] <= words[read_at];
        end
      end else begin : g_distributed
        (* ram_style = "distributed" *) logic [31:0] words [DEPTH];
        always_ff @(posedge clk) begin
          for (int i = 0; i < 4; i++) if (write[at+i]) words[write_at][8*i +: 8] <= in[8*(at+i) +: 8];
          if (read) out[8*at +: 32] <= words[read_at];
        end
      end
    end
  endgenerate

endmodule
