#!/usr/bin/env python3
"""Merges pcap files of one host and one link type into one, in the order of their time stamps.

usage: merge.py OUT IN...
"""

import struct
import sys

FILE_HEADER, RECORD_HEADER = 24, 16


def records(path):
    with open(path, "rb") as file:
        header = file.read(FILE_HEADER)
        while record := file.read(RECORD_HEADER):
            seconds, fraction, captured, _ = struct.unpack("=IIII", record)
            yield (seconds, fraction), header, record + file.read(captured)


def main():
    out, *inputs = sys.argv[1:]
    everything = sorted((record for path in inputs for record in records(path)), key=lambda record: record[0])
    headers = {header for _, header, _ in everything}
    if len(headers) != 1:
        sys.exit(f"merge.py: the inputs have {len(headers)} kinds of file header, and need one")
    with open(out, "wb") as file:
        file.write(headers.pop())
        file.writelines(record for _, _, record in everything)


main()
