"""The code of guides runs, in a folder that has captures and examples."""

import re
from pathlib import Path

import pytest


# Ray has warnings of its own.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("guide", "says"), [("python", "chain.toml"), ("duckdb", "carry half of the bytes")])
def test_the_code_of_the_guide_runs(
    guide: str, says: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / f"docs/guides/{guide}.md").read_text()
    blocks = re.findall("```python\n(.*?)```", page, re.DOTALL)
    for name in ("captures", "examples"):
        (tmp_path / name).symlink_to(root / name)
    for name, text in re.findall("Save this as `(.*?)`:\n\n```toml\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    # What measures takes a minute; test_run.py has these calls.
    run = [block for block in blocks if "paceline.plan" not in block]
    assert len(run) >= len(blocks) - 1 and len(run) >= 4
    for block in run:
        exec(block, names)
    assert says in capsys.readouterr().out
