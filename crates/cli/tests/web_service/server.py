"""An HTTP server of a test: its number, a folder in which the test says what it is to do, and its port."""

import os
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NUMBER, FOLDER, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
HALF = 1 << 20
PATIENCE_S = 120


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/long":
            return self.answer(NUMBER.encode())
        # The second half comes when the test wants it.
        self.send_response(200)
        self.send_header("Content-Length", str(2 * HALF))
        self.end_headers()
        self.wfile.write(NUMBER.encode() * HALF)
        self.wfile.flush()
        until = time.monotonic() + PATIENCE_S
        while not os.path.exists(os.path.join(FOLDER, "finish")) and time.monotonic() < until:
            time.sleep(0.02)
        self.wfile.write(NUMBER.encode() * HALF)

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        whole = left
        while left > 0:
            got = len(self.rfile.read(min(left, 65536)))
            if got == 0:
                break
            left -= got
        self.answer(f"{whole - left}".encode())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 128
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


Server(("::", PORT), Handler).serve_forever()
