"""A user's code, for the type checker: nothing of the package is `Any`."""

from typing_extensions import assert_type

import paceline
import polars
from paceline.reports.run import RunReport

run = paceline.run("chain.toml", "capture.pcap", strategy="rss", cores=2, table_full="reject")
assert_type(run, paceline.Run)
assert_type(run.report, RunReport)
assert_type(run.report.drops, dict[str, int])
assert_type(run.flows.to_polars(), polars.DataFrame)
assert_type(paceline.verify("chain.toml", "capture.pcap").holds, bool)
assert_type(paceline.plan("chain.toml", "capture.pcap").advice.sentences, list[str])
assert_type(paceline.compare("chain.toml").series[0].points[0].mpps, float)
assert_type(paceline.p4.run("program.p4", packets=[b""]).packets, int)
assert_type(paceline.p4.emulate("synthetic", traffic="zipf").stages, int)
assert_type(paceline.sweep("chain.toml", "captures", strategies=["rss"], flows=["default", 8]).rows, list[paceline.SweepRow])
capture = paceline.read_capture("capture.pcap", copy=True)
assert_type(capture.error, paceline.Error | None)
paceline.run("chain.toml", "capture.pcap", table_full="drop")  # type: ignore[arg-type]
paceline.run("chain.toml", "capture.pcap", strategi="rss")  # type: ignore[call-arg]
