#!/usr/bin/env python3
"""Records what Linux's connection tracker makes of random exchanges of UDP, ICMP, GRE and another protocol.

    sudo ./record_other.py --exchanges 120 --seed 1 > others.txt

Needs what `record.py` needs, and works as it does. Host `a` is inside, host `b` outside; each exchange has an address of its own
for `a`. Time-outs are short, so that connections end while it runs.

Output, one line each:
    # udp_timeout=3 udp_timeout_stream=5 ...                   options; begins an exchange
    250 a 450000...  pass unreplied 3
A packet begins with milliseconds since the recording began, its sender's side, and its bytes. Then what Linux did: whether the
packet passed, and what it knows of the packet's connection: `unreplied`, `replied`, `assured`, or `-` where there is none; and
its remaining seconds.
"""
import argparse
import os
import random
import socket
import struct
import time

import record
from record import sh

TIMEOUTS = {"udp_timeout": 3, "udp_timeout_stream": 5, "icmp_timeout": 3, "gre_timeout": 3, "gre_timeout_stream": 5,
            "generic_timeout": 4}
UDP, ICMP, GRE, ESP = 17, 1, 47, 50
NAMES = {UDP: "udp", ICMP: "icmp", GRE: "gre", ESP: "unknown"}
B, ROUTER = "10.1.0.1", "10.1.0.77"


def ip(protocol, src, dst, payload):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0)
    head += socket.inet_aton(src) + socket.inet_aton(dst)
    return head[:10] + struct.pack("!H", record.checksum(head)) + head[12:] + payload


def icmp(kind, code, word, rest=b"abcd"):
    message = struct.pack("!BBHI", kind, code, 0, word) + rest
    message += bytes(len(message) % 2)
    return message[:2] + struct.pack("!H", record.checksum(message)) + message[4:]


class Exchange:
    """Packets between `a` and `b`, of a few connections."""

    def __init__(self, rng, number):
        self.rng, self.a = rng, f"10.0.{number // 250}.{1 + number % 250}"
        self.talk = rng.choice(["udp", "udp", "icmp", "icmp", "gre", "esp", "all"])

    def next(self):
        """The side that sends, the bytes, and the connection that they are of: protocol, who begins it, words."""
        rng = self.rng
        talk = rng.choice(["udp", "icmp", "gre", "esp"]) if self.talk == "all" else self.talk
        side = rng.choice("aab")
        src, dst = (self.a, B) if side == "a" else (B, self.a)
        if talk == "icmp":
            return self.ping(side, src, dst)
        if talk == "gre":
            return side, ip(GRE, src, dst, struct.pack("!HH", 0, 0x0800) + bytes(20)), (GRE, None, ())
        if talk == "esp":
            return side, ip(ESP, src, dst, struct.pack("!II", 7, 9) + bytes(16)), (ESP, None, ())
        port = rng.choice([53, 53, 54])
        if rng.random() < 0.12:
            return self.error(self.udp("a", port), (UDP, None, (f"dport={port}",)))
        return side, self.udp(side, port), (UDP, None, (f"dport={port}",))

    def udp(self, side, port):
        ports = (4000, port) if side == "a" else (port, 4000)
        src, dst = (self.a, B) if side == "a" else (B, self.a)
        return ip(UDP, src, dst, struct.pack("!HHHH", *ports, 12, 0) + b"data")

    def ping(self, side, src, dst):
        rng = self.rng
        # Of each identifier one type: what this tracker keys by the identifier alone Linux keys by the type, too.
        identifier, request, reply = rng.choice([(7, 8, 0), (7, 8, 0), (9, 13, 14)])
        is_request = rng.random() < 0.5
        kind = request if is_request else reply
        word = identifier << 16 | rng.randrange(5)
        asker = src if is_request else dst
        label = (ICMP, asker, (f"type={request}", f"id={identifier}"))
        if rng.random() < 0.15:
            quoted = ip(ICMP, self.a, B, icmp(request, 0, word))
            return self.error(quoted, (ICMP, self.a, label[2]))
        if rng.random() < 0.05:
            kind = rng.choice([0, 14])  # a reply of the other type, or the same
            request = {0: 8, 14: 13}[kind]
            label = (ICMP, dst, (f"type={request}", "id=11"))
            word = 11 << 16
        body = bytes(12) if kind in (13, 14) else b"abcd"
        return side, ip(ICMP, src, dst, icmp(kind, 0, word, body)), label

    def error(self, quoted, label):
        """Of the other end, or of a router near it, about a packet of `a`."""
        kind, code = self.rng.choice([(3, 3), (3, 1), (11, 0), (3, 4)])
        src = self.rng.choice([B, ROUTER])
        return "b", ip(ICMP, src, self.a, icmp(kind, code, 0, quoted[:28])), label


class Kernel(record.Kernel):
    def __init__(self):
        super().__init__()
        sh("ip addr add 10.0.255.254/16 dev side-a")
        for name, seconds in TIMEOUTS.items():
            sh(f"sysctl -qw net.netfilter.nf_conntrack_{name}={seconds}")
        self.drain()

    def pass_on(self, side, packet):
        other = {"a": "b", "b": "a"}[side]
        os.write(self.ends[side], packet)
        try:
            # The time to live is one less, and so the checksum another.
            return os.read(self.ends[other], 65535)[12:] == packet[12:]
        except BlockingIOError:
            return False

    def known(self, exchange, label):
        protocol, asker, words = label
        with open("/proc/net/nf_conntrack", encoding="ascii") as table:
            for line in table:
                found = line.split()
                ends = [f"src={exchange.a}", f"src={B}"] if asker is None else [f"src={asker}"]
                first = next(word for word in found if word.startswith("src="))
                both = {word.replace("dst=", "src=") for word in found if word[:4] in ("src=", "dst=")}
                if found[3] != str(protocol) or first not in ends or f"src={exchange.a}" not in both:
                    continue
                has_port = words and words[0].startswith("dport=")
                wanted = [words[0], words[0].replace("dport", "sport")] if has_port else []
                if (has_port and not set(wanted) & set(found)) or (not has_port and not set(words) <= set(found)):
                    continue
                state = "assured" if "[ASSURED]" in found else "replied"
                return ("unreplied" if "[UNREPLIED]" in found else state), found[4]
        return "-", "-"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchanges", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    kernel = Kernel()
    release = os.uname().release.split("-")[0]
    print(f"# Linux {release}, ./record_other.py --exchanges {args.exchanges} --rounds {args.rounds} --seed {args.seed}")
    options = " ".join(f"{name}={seconds}" for name, seconds in TIMEOUTS.items())
    exchanges = [Exchange(random.Random(args.seed * 1_000_003 + number), number) for number in range(args.exchanges)]
    lines = [[f"# {options}"] for _ in exchanges]
    for _ in range(args.rounds):
        for exchange, log in zip(exchanges, lines):
            for _ in range(exchange.rng.choice([0, 0, 1, 1, 2, 4])):
                side, packet, label = exchange.next()
                time_ms = time.monotonic_ns() // 1_000_000 - record.START_MS
                verdict = "pass" if kernel.pass_on(side, packet) else "drop"
                log.append(" ".join([str(time_ms), side, packet.hex(), verdict, *kernel.known(exchange, label)]))
        # Time-outs are not multiples of it.
        time.sleep(1.3)
    for log in lines:
        print("\n".join(log))


main()
