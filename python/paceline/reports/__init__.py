"""What calls report: a dataclass for each part of the JSON that the program writes, made from its schemas.

`run`, `verify`, `plan` and `compare` are the modules of the calls of that name, `p4_run` and `emulate` of those of `paceline.p4`.
"""

from paceline.reports import compare, emulate, p4_run, plan, run, verify

__all__ = ["compare", "emulate", "p4_run", "plan", "run", "verify"]
