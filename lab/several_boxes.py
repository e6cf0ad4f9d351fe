#!/usr/bin/env python3
"""Which flows a router sends elsewhere when one of several boxes goes, and when it comes back.

Makes a client, a router and boxes in network namespaces: the router spreads flows over the boxes by Linux's multipath routes, by
addresses and ports (fib_multipath_hash_policy=1). Each flow asks which box it reached: with all boxes, with one less, with all
again. Ways: `threshold`, an ordinary multipath route; `resilient`, a group of next hops with buckets. Beside each figure is what the
arithmetic says. Needs root and `ip`; `./x several-boxes` runs it.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

SERVICE = "198.51.100.10"
PORT = 7000
BUCKETS = 128


class Lab:
    """Namespaces that go when this does."""

    def __init__(self, boxes: int, hash_policy: int) -> None:
        self.boxes = boxes
        self.hash_policy = hash_policy
        self.prefix = f"boxes{os.getpid()}"
        self.names: list[str] = []
        self.servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()
            server.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def name(self, what: str) -> str:
        return f"{self.prefix}-{what}"

    def namespace(self, what: str) -> None:
        run("ip", "netns", "add", self.name(what))
        self.names.append(self.name(what))
        self.inside(what, "ip", "link", "set", "lo", "up")

    def inside(self, what: str, *command: str) -> str:
        return run("ip", "netns", "exec", self.name(what), *command)

    def pair(self, what: str, number: int) -> None:
        """A link from the router to `what`: 10.0.NUMBER.1 there, .2 here."""
        near, far = f"r{number}", "up0"
        run("ip", "link", "add", near, "netns", self.name("router"), "type", "veth", "peer", far, "netns", self.name(what))
        for where, device, last in (("router", near, 1), (what, far, 2)):
            self.inside(where, "ip", "addr", "add", f"10.0.{number}.{last}/24", "dev", device)
            self.inside(where, "ip", "link", "set", device, "up")
        self.inside(what, "ip", "route", "add", "default", "via", f"10.0.{number}.1")

    def up(self) -> None:
        self.namespace("router")
        self.namespace("client")
        self.pair("client", 0)
        self.inside("router", "sysctl", "-qw", "net.ipv4.ip_forward=1", f"net.ipv4.fib_multipath_hash_policy={self.hash_policy}")
        # The hash's seed decides which flows a route moves: one that is known gives one figure.
        self.inside("router", "sysctl", "-qw", "-e", "net.ipv4.fib_multipath_hash_seed=1")
        for box in range(1, self.boxes + 1):
            what = f"box{box}"
            self.namespace(what)
            self.pair(what, box)
            self.inside(what, "ip", "addr", "add", f"{SERVICE}/32", "dev", "lo")
            server = subprocess.Popen(
                ["ip", "netns", "exec", self.name(what), sys.executable, __file__, "--answer", str(box)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self.servers.append(server)
            assert server.stdout is not None and server.stdout.readline() == b"ready\n", "a box answers"

    def route(self, way: str, boxes: list[int], first: bool) -> None:
        """Has the router spread flows over these boxes."""
        if way == "threshold":
            hops = [word for box in boxes for word in ("nexthop", "via", f"10.0.{box}.2")]
            self.inside("router", "ip", "route", "replace", f"{SERVICE}/32", *hops)
            return
        for box in range(1, self.boxes + 1) if first else []:
            self.inside("router", "ip", "nexthop", "add", "id", str(box), "via", f"10.0.{box}.2", "dev", f"r{box}")
        group = ["/".join(map(str, boxes)), "type", "resilient", "buckets", str(BUCKETS), "idle_timer", "60", "unbalanced_timer", "0"]
        self.inside("router", "ip", "nexthop", "add" if first else "replace", "id", "100", "group", *group)
        if first:
            self.inside("router", "ip", "route", "replace", f"{SERVICE}/32", "nhid", "100")

    def ask(self, flows: int) -> list[int]:
        """The box that each flow reaches."""
        said = self.inside("client", sys.executable, __file__, "--ask", str(flows))
        reached = json.loads(said)
        assert all(reached), f"{reached.count(0)} of {flows} flows had no answer"
        return list(reached)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def answer(box: int) -> None:
    """A box: tells each flow that asks which box it is, until standard input closes: it goes when the script goes."""
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((SERVICE, PORT))
        print("ready", flush=True)
        while True:
            _, sender = listener.recvfrom(16)
            listener.sendto(bytes([box]), sender)


def ask(flows: int) -> list[int]:
    """Which box each source port reaches; 0 where nothing answers to five tries."""
    reached = []
    for flow in range(flows):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.bind(("", 10000 + flow))
            asker.settimeout(1)
            box = 0
            for _ in range(5):
                asker.sendto(b"?", (SERVICE, PORT))
                try:
                    box = asker.recv(16)[0]
                    break
                except TimeoutError:
                    continue
            reached.append(box)
    return reached


def moved(before: list[int], after: list[int], gone: int) -> float:
    """Share of flows that went elsewhere, of those that were not on the box that went."""
    stayed = [(a, b) for a, b in zip(before, after) if a != gone]
    return sum(a != b for a, b in stayed) / max(1, len(stayed))


def modulo(boxes: int) -> float:
    """Of flows on boxes that stay, the share that hash mod N sends elsewhere when N becomes N - 1 by the last box's going: those with
    hash mod N != hash mod (N - 1), counted over one period of both.
    """
    period = range(boxes * (boxes - 1))
    stayed = [hash for hash in period if hash % boxes != boxes - 1]
    return sum(hash % boxes != hash % (boxes - 1) for hash in stayed) / len(stayed)


def threshold(boxes: int, gone: int) -> float:
    """The share that thresholds move (RFC 2992): boxes divide the range of hashes in their order, in equal parts."""
    left = [box for box in range(1, boxes + 1) if box != gone]
    points = boxes * (boxes - 1)
    before = [point // (boxes - 1) + 1 for point in range(points)]
    return moved(before, [left[point // boxes] for point in range(points)], gone)


def measure(boxes: int, flows: int, hash_policy: int) -> list[dict[str, Any]]:
    everyone = list(range(1, boxes + 1))
    found: list[dict[str, Any]] = []
    with Lab(boxes, hash_policy) as lab:
        lab.up()
        for way in ("threshold", "resilient"):
            for gone in (boxes, boxes // 2 + 1, 1):
                lab.route(way, everyone, True)
                before = lab.ask(flows)
                lab.route(way, [box for box in everyone if box != gone], False)
                after = lab.ask(flows)
                lab.route(way, everyone, False)
                back = lab.ask(flows)
                if way == "resilient":
                    lab.inside("router", "ip", "route", "del", f"{SERVICE}/32")
                    lab.inside("router", "ip", "nexthop", "flush")
                assert gone not in after, "no flow reaches a box that is gone"
                by_arithmetic = threshold(boxes, gone) if way == "threshold" else 0.0
                shares = {"with": before.count(gone) / flows, "moved": moved(before, after, gone), "arithmetic": by_arithmetic}
                found.append({"way": way, "gone": gone, **shares, "moved_back": moved(after, back, 0)})
            if way == "threshold":
                lab.inside("router", "ip", "route", "del", f"{SERVICE}/32")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Which flows go elsewhere when one of several boxes goes.")
    parser.add_argument("--boxes", type=int, default=3)
    parser.add_argument("--flows", type=int, default=3000)
    parser.add_argument("--hash-policy", type=int, default=1, help="0: by addresses alone, which one client shows to be wrong")
    parser.add_argument("--answer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer is not None:
        answer(args.answer)
    if args.ask is not None:
        print(json.dumps(ask(args.ask)))
        return 0
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: several boxes: it takes root and `ip`")
        return 0
    if not 2 <= args.boxes <= 200 or not 100 <= args.flows <= 20_000:
        print("error: --boxes takes 2 to 200, --flows 100 to 20000", file=sys.stderr)
        return 2
    # So that namespaces go, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"{args.boxes} boxes, {args.flows} flows; hash mod N would move {modulo(args.boxes):.1%} of flows on boxes that stay")
    print("way        box gone  had     moved: measured  arithmetic  moved when it is back")
    wrong = False
    for row in measure(args.boxes, args.flows, args.hash_policy):
        print("{way:<10} {gone:>8}  {with:>6.1%}  {moved:>15.1%}  {arithmetic:>10.1%}  {moved_back:>21.1%}".format(**row))
        wrong |= abs(row["moved"] - row["arithmetic"]) > 0.05 or not 0.5 < row["with"] * args.boxes < 1.5
    if wrong:
        print("error: a box had half or twice its share, or a share that moved is 5 points from the arithmetic", file=sys.stderr)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
