"""`python3 -m paceline.ray`: what `paceline sweep --ray ADDRESS` goes on with. Arguments are those of `paceline sweep`."""

from __future__ import annotations

import os
import sys

from tqdm import tqdm

from paceline._errors import Error
from paceline._sweep import FINDINGS, LOST, Question, Sweep, SweepRow
from paceline.ray._cluster import connected
from paceline.ray._sweep import spread

COMPARED = ("equal", "equal-up-to", "different")


def main(args: list[str]) -> int:
    """Sweeps, prints what was found, and returns the exit status of `paceline sweep`."""
    try:
        question = Question.of(args)
        with (
            connected(question.address or "local", log_to_driver=False, logging_level="ERROR"),
            tqdm(total=len(question.cells), desc="sweep", unit="", disable=None) as bar,
        ):

            def each(row: SweepRow) -> None:
                bar.update()

            swept = spread(question, question.out, question.resume, each)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("INTERRUPTED: --resume goes on", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"error: cannot keep rows in {question.out}: {error}\nName another folder with --out.", file=sys.stderr)
        return 2
    print(text(swept), f"rows: {os.path.join(question.out, 'runs.parquet')}", sep="\n")
    return status(swept)


def text(swept: Sweep) -> str:
    """What was found, for people."""
    lines = [f"{len(swept.rows):,} comparisons, {sum(row.packets for row in swept.rows):,} packets compared", ""]
    lines += [f"  {kind:<16} {runs:>9,}" for kind, runs in sorted(swept.outcomes.items())]
    for row in [row for row in swept.rows if row.outcome in (*FINDINGS, LOST)][:20]:
        setting = f"{row.strategy} on {row.cores} cores: {row.chain} over " if row.strategy else ""
        lines.append(f"  {row.outcome.upper()} {setting}{row.capture}: {row.about}")
    return "\n".join(lines) + "\n"


def status(swept: Sweep) -> int:
    """0 where nothing was found, 1 where something was or is lost, 3 where nothing was compared."""
    if any(row.outcome in (*FINDINGS, LOST) for row in swept.rows):
        return 1
    return 0 if any(row.outcome in COMPARED for row in swept.rows) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
