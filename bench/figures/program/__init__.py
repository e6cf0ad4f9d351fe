"""Runs of the program, for the scripts that make tables of them."""

import json
import os
import subprocess
import sys


def run(paceline, folder, name, arguments, environment=None):
    """What one run of the program reports, with some variables of the environment more; its JSON stays in the folder."""
    path = os.path.join(folder, name + ".json")
    print(" ".join(arguments), file=sys.stderr)
    subprocess.run([paceline, *arguments, "--json", path], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, **(environment or {})})
    with open(path, encoding="utf-8") as report:
        return json.load(report)
