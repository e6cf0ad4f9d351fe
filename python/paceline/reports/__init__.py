"""What calls report: a dataclass for each part of the JSON that the program writes, made from its schemas.

`run`, `verify`, `plan` and `compare` are the modules of the calls of that name.
"""

from paceline.reports import compare, plan, run, verify

__all__ = ["compare", "plan", "run", "verify"]
