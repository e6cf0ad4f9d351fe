#!/usr/bin/env python3
"""Draws the blocks ```wavedrom of the book's pages: an mdBook preprocessor. book.toml names it; `./x book` installs what it takes.

A block is what WaveDrom takes (https://wavedrom.com), as JSON: {"signal": ...} for timing, {"reg": ...} for the bits of a format. In the book it is an SVG
in the page. Where Python has no `wavedrom` the blocks stay as they are. A block that cannot be drawn ends the build with its page.
"""

import json
import re
import sys

BLOCK = re.compile(r"^```wavedrom\n(.*?)^```$", re.M | re.S)


def main():
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2:] == ["html"] else 1)
    _, book = json.load(sys.stdin)
    try:
        import wavedrom
    except ImportError:
        print("wavedrom: not there, so drawings stay text (./x book installs it)", file=sys.stderr)
    else:
        draw_all(book, wavedrom.render)
    json.dump(book, sys.stdout)


def draw_all(node, render):
    """Draws the blocks of all chapters, wherever the book has them."""
    if isinstance(node, list):
        for part in node:
            draw_all(part, render)
    elif isinstance(node, dict):
        if isinstance(node.get("content"), str):
            node["content"] = drawn(node["content"], render, node.get("path"))
        for part in node.values():
            draw_all(part, render)


def drawn(text, render, page):
    return BLOCK.sub(lambda block: svg(block[1], render, page), text)


def svg(source, render, page):
    try:
        json.loads(source)
        picture = render(source).tostring()
    except Exception as error:
        sys.exit(f"wavedrom: {page}: a block cannot be drawn: {error}")
    # An empty line would end the HTML within Markdown.
    return '<div class="wavedrom">' + re.sub(r"\n\s*", " ", picture) + "</div>\n"


if __name__ == "__main__":
    main()
