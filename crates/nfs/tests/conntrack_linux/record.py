#!/usr/bin/env python3
"""Records what Linux's connection tracker makes of random TCP exchanges.

    sudo ./record.py --exchanges 200 --seed 1 > exchanges.txt

Needs nftables, iproute2, /dev/net/tun. Works in a network namespace of its own: two tun devices,
forwarding between them, one rule that drops what is invalid. A packet written into one device
either comes out of the other one, or not; /proc/net/nf_conntrack then tells the connection's state
and time-out.

Output, one line each:
    # loose=1 liberal=0                                        options; begins an exchange
    250 a SA seq ack window len scale sack-permitted sack  pass SYN_RECV 60
A packet begins with milliseconds since the recording began. `a` or `b` is the sender; flags by first letter; `-` is no option. Then what Linux did: whether the
packet passed, and the connection's state and remaining seconds, or `- -` where there is none.
"""
import argparse
import ctypes
import fcntl
import os
import random
import socket
import struct
import subprocess
import time

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
LETTERS = ((FIN, "F"), (SYN, "S"), (RST, "R"), (PSH, "P"), (ACK, "A"), (URG, "U"))
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MASK = 0xFFFFFFFF
START_MS = time.monotonic_ns() // 1_000_000


def sh(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Kernel:
    """Two ends, and a Linux between them."""

    def __init__(self):
        assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0, "needs root"
        self.ends = {"a": tun("side-a"), "b": tun("side-b")}
        self.addrs = {"a": "10.0.0.1", "b": "10.1.0.1"}
        sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")  # or the kernel talks on its own
        sh("ip addr add 10.0.0.254/24 dev side-a && ip addr add 10.1.0.254/24 dev side-b")
        sh("ip link set side-a mtu 65535 up && ip link set side-b mtu 65535 up && ip link set lo up")
        sh("sysctl -qw net.ipv4.ip_forward=1 net.netfilter.nf_conntrack_checksum=0")
        sh("sysctl -qw net.ipv4.conf.all.rp_filter=0")
        sh("nft add table ip t && nft 'add chain ip t f { type filter hook forward priority 0; }'")
        sh("nft add rule ip t f ct state invalid drop")
        self.drain()

    def options(self, loose, liberal):
        sh(f"sysctl -qw net.netfilter.nf_conntrack_tcp_loose={loose}")
        sh(f"sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal={liberal}")

    def drain(self):
        for fd in self.ends.values():
            try:
                while True:
                    os.read(fd, 65535)
            except BlockingIOError:
                pass

    def send(self, packet, ports):
        """Whether the packet came out of the other end."""
        other = {"a": "b", "b": "a"}[packet.sender]
        os.write(self.ends[packet.sender], packet.bytes(self.addrs, ports))
        try:
            return os.read(self.ends[other], 65535)[9] == socket.IPPROTO_TCP
        except BlockingIOError:
            return False

    def connection(self, ports):
        wanted = {f"sport={ports['a']}", f"dport={ports['a']}"}
        with open("/proc/net/nf_conntrack", encoding="ascii") as table:
            for line in table:
                words = line.split()
                if words[2] == "tcp" and wanted & set(words):
                    return words[5], int(words[4])
        return "-", "-"


class Packet:
    def __init__(self, sender, flags, seq, ack, window, length, scale, permitted, sack):
        self.sender, self.flags = sender, flags
        self.seq, self.ack, self.sack = seq & MASK, ack & MASK, sack if sack is None else sack & MASK
        self.window, self.length, self.scale, self.permitted = window, length, scale, permitted

    def bytes(self, addrs, ports):
        other = {"a": "b", "b": "a"}[self.sender]
        options = b""
        if self.scale is not None:
            options += bytes([3, 3, self.scale, 1])
        if self.permitted:
            options += bytes([4, 2, 1, 1])
        if self.sack is not None:
            options += bytes([1, 1, 5, 10]) + struct.pack("!II", (self.sack - 1) & MASK, self.sack)
        offset = (20 + len(options)) // 4
        tcp = struct.pack("!HHIIBBHHH", ports[self.sender], ports[other], self.seq, self.ack, offset << 4,
                          self.flags, self.window, 0, 0) + options
        addresses = socket.inet_aton(addrs[self.sender]) + socket.inet_aton(addrs[other])
        length = 20 + len(tcp) + self.length
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 6, 0) + addresses
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        return ip + tcp + bytes(self.length)

    def __str__(self):
        flags = "".join(letter for bit, letter in LETTERS if self.flags & bit) or "-"
        scale = "-" if self.scale is None else self.scale
        sack = "-" if self.sack is None else self.sack
        return (f"{self.sender} {flags} {self.seq} {self.ack} {self.window} {self.length} {scale} "
                f"{int(self.permitted)} {sack}")


class Endpoint:
    def __init__(self, rng):
        near_wrap = rng.random() < 0.3
        self.next = (MASK - rng.randrange(3000) if near_wrap else rng.randrange(1 << 32)) & MASK
        self.initial = self.next
        self.window = rng.choice([0, 1, 500, 8192, 65535, 65535])
        self.scale = rng.choice([None, 0, 2, 7, 14])
        self.permitted = rng.random() < 0.6


class Exchange:
    """Two ends that talk TCP more or less, and now and then much less."""

    def __init__(self, rng, chaos):
        self.rng, self.chaos = rng, chaos
        self.ends = {"a": Endpoint(rng), "b": Endpoint(rng)}
        self.sent = []
        self.steps = self.script()

    def packet(self, sender, flags, length=0, advance=True):
        rng, end = self.rng, self.ends[sender]
        peer = self.ends["b" if sender == "a" else "a"]
        is_syn = bool(flags & SYN)
        seq, ack = end.next, peer.next if flags & ACK else 0
        if is_syn and rng.random() < 0.8:
            seq = end.initial
        window = end.window
        sack = None
        if flags & ACK and not is_syn and rng.random() < 0.1:
            sack = ack + rng.choice([1, 100, 1460, 70000])
        if rng.random() < self.chaos:
            jolts = [1, -1, 2, -2, length, -length, 1000, -1000, 65535, -65535, 66000, -66000, 66001, -66001,
                     window, -window, 1 << 20, -(1 << 20), 1 << 30, rng.randrange(1 << 32)]
            which = rng.randrange(4)
            if which == 0:
                seq += rng.choice(jolts)
            elif which == 1:
                ack += rng.choice(jolts)
            elif which == 2:
                seq, ack = seq + rng.choice(jolts), ack + rng.choice(jolts)
            else:
                window = rng.choice([0, 1, 100, 65535])
            advance = advance and rng.random() < 0.3
        packet = Packet(sender, flags, seq, ack, window, length, end.scale if is_syn else None,
                        is_syn and end.permitted, sack)
        if advance:
            after = packet.seq + length + bool(flags & SYN) + bool(flags & FIN)
            if (after - end.next) & MASK < 1 << 31:
                end.next = after & MASK
        self.sent.append(packet)
        return packet

    def random_packet(self):
        rng = self.rng
        sender = rng.choice("ab")
        if self.sent and rng.random() < 0.15:
            self.sent.append(rng.choice(self.sent[-4:]))
            return self.sent[-1]
        if rng.random() < 0.03:
            return self.packet(sender, rng.randrange(64), rng.choice([0, 10]), advance=False)
        flags = rng.choices([SYN, SYN | ACK, FIN | ACK, ACK, RST, RST | ACK, PSH | ACK],
                            [4, 3, 8, 30, 4, 3, 30])[0]
        if flags == SYN and rng.random() < 0.5:
            end = self.ends[sender]
            end.initial = end.next = (end.next + rng.choice([1, 1000, 100000, rng.randrange(1 << 32)])) & MASK
        length = rng.choice([1, 10, 1000, 1460, 9000]) if flags & PSH else 0
        if flags & RST and rng.random() < 0.3:
            packet = self.packet(sender, flags, advance=False)
            packet.seq, packet.ack = (0, packet.ack) if rng.random() < 0.5 else (packet.seq, 0)
            return packet
        return self.packet(sender, flags, length)

    def script(self):
        """What both ends would do if all went well."""
        opening = [("a", SYN, 0), ("b", SYN | ACK, 0), ("a", ACK, 0), ("a", PSH | ACK, 100),
                   ("b", PSH | ACK, 1000), ("a", ACK, 0)]
        closing = [("a", FIN | ACK, 0), ("b", ACK, 0), ("b", FIN | ACK, 0), ("a", ACK, 0)]
        both_open = [("a", SYN, 0), ("b", SYN, 0), ("b", SYN | ACK, 0), ("a", SYN | ACK, 0)]
        pick_up = [("a", ACK, 0), ("b", PSH | ACK, 100), ("a", PSH | ACK, 100)]
        return self.rng.choice([opening, opening, opening, opening + closing, opening + closing, both_open, pick_up,
                                []]).copy()

    def packets(self, count):
        for _ in range(count):
            if self.steps and self.rng.random() < 0.9:
                yield self.packet(*self.steps.pop(0))
            else:
                yield self.random_packet()


def record(kernel, exchange, count, ports, lines):
    for packet in exchange.packets(count):
        time_ms = time.monotonic_ns() // 1_000_000 - START_MS
        passed = kernel.send(packet, ports)
        state, seconds = kernel.connection(ports)
        lines.append(f"{time_ms} {packet} {'pass' if passed else 'drop'} {state} {seconds}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchanges", type=int, default=200)
    parser.add_argument("--packets", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait", type=int, default=3, help="seconds to wait in the middle of each exchange")
    args = parser.parse_args()
    kernel = Kernel()
    print(f"# Linux {os.uname().release.split('-')[0]}, ./record.py --exchanges {args.exchanges} "
          f"--packets {args.packets} --seed {args.seed} --wait {args.wait}")
    first = 0
    for loose, liberal, share in ((1, 0, 0.5), (0, 0, 0.3), (1, 1, 0.2)):
        kernel.options(loose, liberal)
        last = first + int(args.exchanges * share)
        # A hundred at a time, so that all of them wait together.
        for begin in range(first, last, 100):
            sh("conntrack -F 2>/dev/null")
            indices = range(begin, min(begin + 100, last))
            rngs = [random.Random(args.seed * 1_000_003 + index) for index in indices]
            exchanges = [Exchange(rng, rng.choice([0.0, 0.1, 0.3])) for rng in rngs]
            lines = [[f"# loose={loose} liberal={liberal}"] for _ in indices]
            for half in range(2):
                for index, exchange, log in zip(indices, exchanges, lines):
                    record(kernel, exchange, args.packets // 2, {"a": 1024 + index % 60000, "b": 80}, log)
                if half == 0:
                    time.sleep(args.wait)
            for log in lines:
                print("\n".join(log))
        first = last


if __name__ == "__main__":
    main()
