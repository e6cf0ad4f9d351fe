"""The Ray cluster that a sweep uses."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from paceline._sweep import failed

ANSWERS_WITHIN_S = 30
"""How long a cluster may take to answer."""

ASK = """
import sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
"""


@contextmanager
def connected(address: str = "local", **given: Any) -> Iterator[None]:
    """Uses the cluster at this address, and lets go of it at the end. A program that is connected already stays so.

    Args:
        address: `HOST:PORT` of a cluster's head, `ray://HOST:PORT` of its server for clients, `auto` for the one of this machine, or
            `local`: one that is started here, and ends with the program.
        given: Further arguments of `ray.init`.

    Raises:
        Error: Nothing answers there within half a minute.
    """
    if ray.is_initialized():
        yield
        return
    if address != "local":
        ask(address)
    else:
        given = {"include_dashboard": False, **given}
    ray.init(address=address, **given)
    try:
        yield
    finally:
        ray.shutdown()


def ask(address: str) -> None:
    """Looks whether a cluster answers. Ray by itself tries for minutes, and some of its time-outs end the process: so a process of
    its own asks.
    """
    silent = f"no Ray cluster answers at {address}"
    help = "Start one with `ray start --head`, which prints its address; or take the address `local`."
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto":
        try:
            socket.create_connection((host, int(port)), ANSWERS_WITHIN_S).close()
        except (OSError, ValueError, OverflowError) as error:
            raise failed(f"{silent}: {error}", help) from error
    try:
        asked = subprocess.run([sys.executable, "-c", ASK, address], timeout=ANSWERS_WITHIN_S, capture_output=True, text=True)
    except subprocess.TimeoutExpired as error:
        raise failed(f"{silent} within {ANSWERS_WITHIN_S} s", help) from error
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines() or ["Ray ended without a word"]
        raise failed(f"{silent}: {lines[-1]}", help)
