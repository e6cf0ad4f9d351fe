"""Paceline: stateful packet processing on many cores, proved equal to one core.

    import paceline
    run = paceline.run("chain.toml", "capture.pcap", strategy="rss", cores=2)
    print(run.flows.to_polars())

Tables are Arrow: polars, pandas and pyarrow take them without a copy. What a call reports is a dataclass of
`paceline.reports`, with the fields of the JSON that the command of that name writes. A call that fails raises `paceline.Error`.
"""

from paceline import p4, reports
from paceline._calls import Function, Run, Verdict, compare, plan, run, verify
from paceline._capture import Capture, read_capture
from paceline._errors import Error, IncompleteWarning
from paceline._native import Packet
from paceline._sweep import Sweep, SweepRow, sweep
from paceline._table import Table

__all__ = [
    "Capture",
    "Error",
    "Function",
    "IncompleteWarning",
    "Packet",
    "Run",
    "Sweep",
    "SweepRow",
    "Table",
    "Verdict",
    "compare",
    "p4",
    "plan",
    "read_capture",
    "reports",
    "run",
    "sweep",
    "verify",
]
