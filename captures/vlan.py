#!/usr/bin/env python3
"""An 802.1Q sub-interface in user space: vlan.py DEVICE VLAN_ID TAP

Makes the TAP device; what the kernel sends on it leaves DEVICE with a tag, and frames that
arrive on DEVICE with this tag come in on it without. The same as `ip link add link DEVICE type
vlan`, for kernels built without 8021q. Runs until it is killed; record.sh starts it.
"""

import fcntl
import select
import socket
import struct
import sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SOL_PACKET, PACKET_AUXDATA = 263, 8
ETH_P_ALL, ETH_P_8021Q = 0x0003, 0x8100
TP_STATUS_VLAN_VALID = 0x10
AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata: status, .., vlan tci, tpid
MACS_LEN = 12  # a tag stands after the two MAC addresses
FRAME_MAX_LEN = 65536


def main(device, vlan_id, tap_name):
    tap = open("/dev/net/tun", "r+b", buffering=0)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", tap_name.encode(), IFF_TAP | IFF_NO_PI))
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    link.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    link.bind((device, 0))

    tag = struct.pack("!HH", ETH_P_8021Q, vlan_id)
    while True:
        for source in select.select([tap, link], [], [])[0]:
            if source is tap:
                frame = tap.read(FRAME_MAX_LEN)
                link.send(frame[:MACS_LEN] + tag + frame[MACS_LEN:])
            else:
                frame = receive_untagged(link, vlan_id)
                if frame is not None:
                    write(tap, frame)


def receive_untagged(link, vlan_id):
    """The next frame without its tag; None where it is not of this VLAN, or one we sent."""
    frame, ancillary, _, (_, _, packet_type, *_) = link.recvmsg(FRAME_MAX_LEN, 128)
    if packet_type == socket.PACKET_OUTGOING:
        return None
    for level, kind, data in ancillary:  # the kernel strips the outer tag and tells it here
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, *_, tci, _ = AUXDATA.unpack(data[: AUXDATA.size])
            if status & TP_STATUS_VLAN_VALID and tci & 0x0FFF == vlan_id:
                return frame
    return None


def write(tap, frame):
    try:
        tap.write(frame)
    except OSError:
        pass  # the TAP is still down: a cable not yet plugged in


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
