#!/usr/bin/env python3
"""What the recorded hosts serve: servers.py FOLDER, run inside a namespace by record.sh

Port 80: the folder over HTTP/1.1 with keep-alive. Port 22: a line of greeting, then an echo;
it stands for a login service behind a port-knocking firewall. Both on IPv4 and IPv6.
"""

import functools
import http.server
import socket
import socketserver
import sys
import threading


class Pages(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


class Greeter(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"SSH-2.0-recorded\r\n")
        for line in self.rfile:
            self.wfile.write(line)


class DualStack(socketserver.ThreadingTCPServer):
    # Not HTTPServer, which looks up its own name first: namespaces have no resolver.
    address_family = socket.AF_INET6
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


def main(folder):
    greeter = DualStack(("::", 22), Greeter)
    threading.Thread(target=greeter.serve_forever, daemon=True).start()
    DualStack(("::", 80), functools.partial(Pages, directory=folder)).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
