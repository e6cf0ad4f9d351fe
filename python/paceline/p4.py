"""Programs in P4-16 with tables that the data plane writes: the reference interpreter, and models of pipelines in hardware."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Literal

from paceline import _native
from paceline._calls import Path, options, warn
from paceline._load import load
from paceline.reports.emulate import Emulation
from paceline.reports.p4_run import P4Run

__all__ = ["emulate", "run"]


def run(
    program: Path,
    capture: Path | None = None,
    *,
    packets: Sequence[bytes] = (),
    stf: Path | None = None,
    port: int | None = None,
    port_of: Mapping[str, int] | None = None,
    include: Sequence[Path] = (),
    define: Mapping[str, str] | None = None,
) -> P4Run:
    """Runs a program as the reference interpreter does: a test file first, then packets, then a capture.

    What the test file expects and does not get is in `stf.failures` of the result.

    Args:
        program: The program.
        capture: Ethernet frames: pcap or pcapng, plain, gzip or zstd.
        packets: Frames, from the Ethernet header on; `sent` of the result has what left for each.
        stf: A test file: entries, packets and what is expected.
        port: The port that packets come in by.
        port_of: Ports of packets from a prefix, an address or a MAC address.
        include: Folders of included files.
        define: Macros.

    Raises:
        Error: The program has a mistake, or nothing can be read of the capture.
    """
    args = _source(program, include, define) + options(
        pcap=None if capture is None else os.fspath(capture),
        stf=None if stf is None else os.fspath(stf),
        port=port,
    )
    args += [f"--packet={packet.hex()}" for packet in packets] + _ports(port_of)
    report = load(P4Run, json.loads(_native.call("p4", ["run", *args], {})))
    warn(report.complete, report.error)
    return report


def emulate(
    program: Path,
    capture: Path | None = None,
    *,
    traffic: str | None = None,
    model: str | None = None,
    packets: int | None = None,
    check: bool = False,
    stf: Path | None = None,
    stages: int | None = None,
    stage_cycles: int | None = None,
    consistency: str | None = None,
    update_rate: int | None = None,
    pacing: Literal["load", "every-cycle", "timed"] | None = None,
    load_percent: int | None = None,
    when_full: Literal["drop", "stall"] | None = None,
    port: int | None = None,
    port_of: Mapping[str, int] | None = None,
    include: Sequence[Path] = (),
    define: Mapping[str, str] | None = None,
) -> Emulation:
    """Runs a program, or `synthetic`, on a cycle-accurate model of a pipeline.

    That the model differs from the reference is no error: it is in `check` of the result.

    Args:
        program: A program in P4, or `synthetic`.
        capture: What arrives.
        traffic: A model of traffic in its place.
        model: `rapid`, `blocking`, `flowblaze`, `banzai` or `pisa`.
        packets: Packets of it, at most.
        check: Compare with the reference: what leaves, and the state at the end.
        stf: A test file, for the entries that the control plane has put.
        stages: Stages that the stateful function spans.
        stage_cycles: Cycles that a packet spends in each.
        consistency: Of all tables, in place of what the program says.
        update_rate: Of `synthetic`: packets that write state, percent.
        pacing: When packets arrive.
        load_percent: The load that is offered, of what the line takes.
        when_full: What becomes of packets that find no room.
        port: The port that packets come in by.
        port_of: Ports of packets from a prefix, an address or a MAC address.
        include: Folders of included files.
        define: Macros.

    Raises:
        Error: The program has a mistake, the model cannot run it, or nothing can be read of the capture.
    """
    args = _source(program, include, define) + options(
        pcap=None if capture is None else os.fspath(capture),
        traffic=traffic,
        model=model,
        packets=packets,
        check=check,
        stf=None if stf is None else os.fspath(stf),
        stages=stages,
        stage_cycles=stage_cycles,
        consistency=consistency,
        update_rate=update_rate,
        pacing=pacing,
        load=load_percent,
        when_full=when_full,
        port=port,
    )
    return load(Emulation, json.loads(_native.call("emulate", args + _ports(port_of), {})))


def _source(program: Path, include: Sequence[Path], define: Mapping[str, str] | None) -> list[str]:
    folders = [f"-I{os.fspath(folder)}" for folder in include]
    return [os.fspath(program), *folders, *(f"-D{name}={value}" for name, value in (define or {}).items())]


def _ports(port_of: Mapping[str, int] | None) -> list[str]:
    return [f"--port-of={source}={port}" for source, port in (port_of or {}).items()]
