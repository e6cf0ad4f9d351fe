"""A server or a client of HTTP/3, of a test: `aioquic`, a package of PyPI.

    http3.py serve NUMBER HOST PORT
    http3.py ask HOST PORT CONNECTIONS FOLDER

The server answers with its number. It is bound to the VIP: a datagram leaves from there alone. The client opens connections and writes who answered each into FOLDER/first; once FOLDER/more is
there, it asks again on the same connections and writes into FOLDER/second.
"""

import asyncio
import contextlib
import datetime
import os
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

PATIENCE_S = 120


class Http3(QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated) and self.http is None:
            self.http = H3Connection(self._quic)
        if self.http is not None:
            for h3_event in self.http.handle_event(event):
                self.heard(h3_event)


class Server(Http3):
    def heard(self, event):
        if isinstance(event, HeadersReceived) and event.stream_ended:
            self.http.send_headers(event.stream_id, [(b":status", b"200")])
            self.http.send_data(event.stream_id, sys.argv[2].encode(), end_stream=True)
            self.transmit()


class Client(Http3):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.waiting = {}

    def heard(self, event):
        if isinstance(event, DataReceived) and event.stream_ended:
            self.waiting.pop(event.stream_id).set_result(event.data.decode())

    async def get(self):
        while self.http is None:
            await asyncio.sleep(0.01)
        stream = self._quic.get_next_available_stream_id()
        answer = self._loop.create_future()
        self.waiting[stream] = answer
        names = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"vip"), (b":path", b"/")]
        self.http.send_headers(stream, names, end_stream=True)
        self.transmit()
        return await asyncio.wait_for(answer, PATIENCE_S)


def certificate():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "vip")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()), key


async def run_server():
    own, key = certificate()
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False)
    configuration.certificate, configuration.private_key = own, key
    await serve(sys.argv[3], int(sys.argv[4]), configuration=configuration, create_protocol=Server)
    await asyncio.Future()


async def run_client():
    host, port, connections, folder = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE, server_name="vip")
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                connect(host, port, configuration=configuration, create_protocol=Client)
            )
            for _ in range(connections)
        ]
        for name in ["first", "second"]:
            answers = [await client.get() for client in clients]
            path = os.path.join(folder, name)
            with open(path + ".part", "w") as file:
                file.write(" ".join(answers))
            os.rename(path + ".part", path)
            while name == "first" and not os.path.exists(os.path.join(folder, "more")):
                await asyncio.sleep(0.02)


asyncio.run(run_server() if sys.argv[1] == "serve" else run_client())
