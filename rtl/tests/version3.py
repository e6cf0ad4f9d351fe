"""The history's version 3 before each frame of a capture, as docs/xdp.md says it: what the hardware for a program has to write.

usage: version3.py PARSER IN.pcap OUT_DIR CORES LAYOUT...
  PARSER   headers, of examples/p4/headers.p4, or fields, of rtl/tests/fields.p4
  CORES    cores that get packets in turn
  LAYOUT   the fields of an item, each as NAME:BITS: what docs/xdp.md says of the program

It knows these parsers by heart, and nothing of the compiler. Frame i came by port i mod 5, as rtl/tests/sequencer.cpp has it.
"""

import os
import struct
import sys

ETHERNET = [("dst_addr", 48), ("src_addr", 48), ("ether_type", 16)]
IPV4 = [("version", 4), ("ihl", 4), ("tos", 8), ("total_len", 16), ("identification", 16), ("flags", 3), ("frag_offset", 13), ("ttl", 8),
        ("protocol", 8), ("checksum", 16), ("src_addr", 32), ("dst_addr", 32)]
TCP = [("src_port", 16), ("dst_port", 16), ("seq", 32), ("ack", 32), ("data_offset", 4), ("reserved", 4), ("ecn", 2), ("flags", 6), ("window", 16),
       ("checksum", 16), ("urgent", 16)]
WORD = [("kind", 4), ("rest", 12)]
TAG = [("priority", 3), ("id", 13), ("ether_type", 16)]
LONG = [("first", 128), ("second", 8)]
# Numbers of errors, in the order of core.p4.
TOO_SHORT, NO_MATCH = 1, 2
UDP = [("src_port", 16), ("dst_port", 16), ("len", 16), ("checksum", 16)]


def main():
    if len(sys.argv) < 6 or sys.argv[1] not in PARSERS:
        sys.exit(__doc__)
    parser, capture, out, cores, layout = PARSERS[sys.argv[1]], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
    os.makedirs(out, exist_ok=True)
    files = [open(os.path.join(out, f"core-{core:02}.pcap"), "wb") for core in range(cores)]
    for file in files:
        file.write(struct.pack("<6I", 0xA1B23C4D, 0x00040002, 0, 0, 0x40000, 1))
    item_fields = [(name, int(bits)) for name, _, bits in (field.rpartition(":") for field in layout)]
    item_len = max(1, sum((bits + 7) // 8 for _, bits in item_fields))
    ring, last_ns = [bytes(item_len)] * (cores - 1), 0
    for number, (time_ns, frame) in enumerate(read(capture)):
        last_ns = max(last_ns, time_ns)
        count = min(number, cores - 1)
        oldest = (number - count) % (cores - 1) if cores > 1 else 0
        header = b"PLHI" + bytes([3, 0]) + struct.pack(">HQQQ", 1, number, last_ns, fnv(" ".join(layout)))
        header += struct.pack(">HHHHHHI", item_len, cores - 1, count, oldest, number % cores, number % 5, number // cores & 0xFFFFFFFF)
        packet = header + b"".join(ring) + frame
        files[number % cores].write(struct.pack("<4I", last_ns // 10**9, last_ns % 10**9, len(packet), len(packet)) + packet)
        if cores > 1:
            ring[number % (cores - 1)] = item(item_fields, parsed(parser, frame, number % 5, last_ns), item_len)


def item(fields, values, item_len):
    parts = (values.get(name, 0).to_bytes((bits + 7) // 8, "big") for name, bits in fields)
    return b"".join(parts).ljust(item_len, b"\0")


def parsed(parser, frame, port, time_ns):
    """What the ingress finds in fields; those that are not here are 0."""
    values = {
        "standard_metadata.ingress_port": port,
        "standard_metadata.packet_length": len(frame),
        "standard_metadata.ingress_global_timestamp": time_ns // 1000 & (1 << 48) - 1,
    }
    values["standard_metadata.parser_error"] = parser(values, frame)
    return values


def headers(values, frame):
    """The parser of examples/p4/headers.p4; gives the number of its error. A header that is cut short is not there, and nothing behind it."""
    if not take(values, frame, 0, "hdr.ethernet", ETHERNET):
        return TOO_SHORT
    if values["hdr.ethernet.ether_type"] != 0x0800:
        return 0
    if not take(values, frame, 14, "hdr.ipv4", IPV4):
        return TOO_SHORT
    if (values["hdr.ipv4.version"], values["hdr.ipv4.ihl"], values["hdr.ipv4.frag_offset"]) == (4, 5, 0):
        if values["hdr.ipv4.protocol"] == 6:
            return 0 if take(values, frame, 34, "hdr.tcp", TCP) else TOO_SHORT
        if values["hdr.ipv4.protocol"] == 17:
            return 0 if take(values, frame, 34, "hdr.udp", UDP) else TOO_SHORT
    return 0


def fields(values, frame):
    """That of rtl/tests/fields.p4."""
    if not take(values, frame, 0, "hdr.ethernet", ETHERNET) or not take(values, frame, 14, "hdr.word", WORD):
        return TOO_SHORT
    at, kind = 16, values["hdr.word.kind"]
    if kind < 8 and 0x0800 <= values["hdr.ethernet.ether_type"] <= 0x86DD:
        if not take(values, frame, at, "hdr.tag", TAG):
            return TOO_SHORT
        at, is_long = at + 4, values["hdr.tag.id"] & 1
    elif 8 <= kind <= 11:
        is_long = True
    else:
        return 0 if kind in (12, 13) else NO_MATCH
    if is_long:
        if not take(values, frame, at, "hdr.long", LONG):
            return TOO_SHORT
        at += 17
    return 0 if take(values, frame, at, "hdr.other", WORD) else TOO_SHORT


PARSERS = {"headers": headers, "fields": fields}


def take(values, frame, at, name, fields):
    bits = sum(width for _, width in fields)
    if at + bits // 8 > len(frame):
        return False
    number = int.from_bytes(frame[at : at + bits // 8], "big")
    for field, width in fields:
        bits -= width
        values[f"{name}.{field}"] = number >> bits & (1 << width) - 1
    values[f"{name}.$valid"] = 1
    return True


def fnv(text):
    number = 0xCBF29CE484222325
    for byte in text.encode():
        number = (number ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return number


def read(path):
    """Time and bytes of each frame of a pcap file."""
    data = open(path, "rb").read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if struct.unpack(order + "I", data[:4])[0] == 0xA1B23C4D else 1000
    at = 24
    while at + 16 <= len(data):
        seconds, parts, length, _ = struct.unpack(order + "4I", data[at : at + 16])
        yield seconds * 10**9 + parts * unit, data[at + 16 : at + 16 + length]
        at += 16 + length


if __name__ == "__main__":
    main()
