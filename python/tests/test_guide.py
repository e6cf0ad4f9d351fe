"""The guide's code runs, from the folder of the repository."""

import re
from pathlib import Path

import pytest


def test_the_code_of_the_guide_runs(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall("```python\n(.*?)```", (root / "docs/guides/python.md").read_text(), re.DOTALL)
    monkeypatch.chdir(root)
    names: dict[str, object] = {}
    # What measures takes a minute; test_run.py has these calls.
    run = [block for block in blocks if "paceline.plan" not in block]
    assert len(run) == len(blocks) - 1 and len(run) >= 4
    for block in run:
        exec(block, names)
    assert "chain.toml" in capsys.readouterr().out
