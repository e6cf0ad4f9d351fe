"""The end of a tunnel, where the kernel has none of its own: takes the packets out, and gives them to a TUN interface.

It is an oracle of its own, too: what is wrong with an outer IPv4 header it writes into a file, a line each.

    tunnel_end.py INTERFACE SOURCE KIND COMPLAINTS

SOURCE is where the tunnel begins. KIND is the protocol inside an IP header, 4 or 41, or gue:PORT.
"""

import fcntl
import os
import socket
import struct
import sys

INTERFACE, SOURCE, KIND, COMPLAINTS = sys.argv[1:]
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# Linux: beyond the limit of those who are not root.
SO_RCVBUFFORCE = 33
BUFFER = 8 << 20


def summed(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def wrong(packet):
    """What is wrong with an IPv4 header and what follows it."""
    version, tos, length, identification, fragment, ttl, protocol, _, source, _ = struct.unpack(
        "!BBHHHBBH4s4s", packet[:20]
    )
    inside = packet[20:]
    if inside[0] >> 4 == 4:
        inside_tos, inside_length = inside[1], struct.unpack("!H", inside[2:4])[0]
        if summed(inside[: 4 * (inside[0] & 0xF)]) != 0xFFFF:
            return "the header inside has a wrong checksum"
    else:
        inside_tos = (inside[0] << 4 | inside[1] >> 4) & 0xFF
        inside_length = 40 + struct.unpack("!H", inside[4:6])[0]
    expected = {
        "version": (version, 0x45),
        "service": (tos, inside_tos),
        "length": (length, 20 + inside_length),
        "identification": (identification, 0),
        "fragment": (fragment, 0x4000),
        # The router took one from 64.
        "TTL": (ttl, 63),
        "protocol": (protocol, int(KIND)),
        "checksum": (summed(packet[:20]), 0xFFFF),
        "source": (socket.inet_ntoa(source), SOURCE),
    }
    differs = [f"{name} {found} and not {right}" for name, (found, right) in expected.items() if found != right]
    return ", ".join(differs)


tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), IFF_TUN | IFF_NO_PI))
family = socket.AF_INET6 if ":" in SOURCE else socket.AF_INET
if KIND.startswith("gue:"):
    end = socket.socket(family, socket.SOCK_DGRAM)
    end.bind(("", int(KIND[4:])))
else:
    end = socket.socket(family, socket.SOCK_RAW, int(KIND))
end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
with open(COMPLAINTS, "w", buffering=1) as complaints:
    complaints.write("ready\n")
    while True:
        packet, sender = end.recvfrom(65535)
        if sender[0] != SOURCE:
            # Of a raw socket, whatever is of the protocol.
            complaints.write(f"from {sender[0]}\n")
            continue
        if family == socket.AF_INET and not KIND.startswith("gue:"):
            said = wrong(packet)
            if said:
                complaints.write(said + "\n")
            packet = packet[20:]
        os.write(tun, packet)
