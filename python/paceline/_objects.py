"""Captures in object stores, by URL: S3, Google Cloud Storage, Azure. It takes obstore: `pip install paceline[objects]`.

    s3://bucket/captures/          all captures below
    s3://bucket/captures/*.pcap    those that match; `*` is within a folder
    s3://bucket/a.pcap             one

Keys, regions and endpoints are those of the environment, under the stores' own names: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`,
`GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_NAME` and so on.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from paceline._errors import Error

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
"""Schemes of URLs that name objects."""

EXTENSIONS = (".pcap", ".pcapng", ".cap", ".dmp")
"""How names of captures end, or those with .gz or .zst behind."""

WAITS = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
"""How often and how long a store is asked that does not answer."""


class Gone(Exception):
    """There is no such object."""


class Unanswered(Exception):
    """The store did not answer, or refused: another try may end otherwise."""


def is_url(name: str) -> bool:
    """Whether a name is an object's, or a pattern of objects."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme in SCHEMES


def listed(url: str) -> list[str]:
    """URLs of the captures that a URL names, in the order of their names.

    Raises:
        Error: There is none, the store does not answer, or obstore is not installed.
    """
    store, root, path = opened(url)
    if glob.has_magic(path):
        parts = path.split("/")
        plain = next(at for at, part in enumerate(parts) if glob.has_magic(part))
        names = [name for name in below(store, url, "/".join(parts[:plain])) if matches(name, parts)]
    elif path and not path.endswith("/") and PurePosixPath(path).name and is_capture(path):
        names = [path]
    else:
        names = [name for name in below(store, url, path.strip("/")) if is_capture(name)]
    if not names:
        text = f"no capture at {url}"
        raise Error(f"{text}\n", text, None, "Name an object, a folder of them with `/` at its end, or a pattern.", 2)
    return [f"{root}/{name}" for name in sorted(names)]


@contextmanager
def fetched(url: str) -> Iterator[str]:
    """A file with what the object has. The one of the last URL is kept, since comparisons of a capture follow each other.

    Raises:
        Gone: There is no such object.
        Unanswered: The store did not answer, or the file could not be written.
    """
    if Fetched.last is None or Fetched.last.url != url:
        Fetched.last = Fetched(url)
    yield Fetched.last.path


class Fetched:
    """A copy of an object, in a folder of its own that goes with it."""

    last: Fetched | None = None

    def __init__(self, url: str) -> None:
        from obstore.exceptions import BaseError, NotFoundError

        self.url = url
        store, _, path = opened(url)
        folder = tempfile.mkdtemp(prefix="paceline-")
        # With the copy, and at the end of the process.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        # The name's end says how it is packed.
        self.path = os.path.join(folder, PurePosixPath(path).name)
        try:
            with open(self.path, "wb") as file:
                for chunk in store.get(path):
                    file.write(chunk)
        except (NotFoundError, FileNotFoundError) as error:
            raise Gone(f"no object {url}") from error
        except (BaseError, OSError) as error:
            raise Unanswered(f"cannot read {url}: {first_line(error)}") from error


def opened(url: str) -> tuple[ObjectStore, str, str]:
    """The store that a URL is in, the URL of its root, and the path in it."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        text = f"{url} is in an object store, and obstore is not installed"
        raise Error(f"{text}\n", text, None, "pip install 'paceline[objects]', on all machines of a cluster.", 2) from error
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    root = f"{scheme}://{bucket}"
    config: dict[str, Any] = {"retry_config": WAITS}
    try:
        return from_url(root, **config), root, path
    except (BaseError, ValueError, OSError) as error:
        raise refused(url, error) from error


def below(store: ObjectStore, url: str, prefix: str) -> list[str]:
    """Paths of all objects in a folder and those in it."""
    from obstore.exceptions import BaseError

    try:
        return [one["path"] for some in store.list(prefix or None) for one in some]
    except (BaseError, OSError) as error:
        raise refused(url, error) from error


def refused(url: str, error: Exception) -> Error:
    text = f"cannot list {url}: {first_line(error)}"
    help = "Keys, region and endpoint are those of the environment: AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT and so on."
    return Error(f"{text}\n{help}", text, None, help, 2)


def matches(name: str, parts: list[str]) -> bool:
    """Whether each part of a path matches the pattern's."""
    own = name.split("/")
    return len(own) == len(parts) and all(map(fnmatch.fnmatchcase, own, parts))


def is_capture(name: str) -> bool:
    lower = name.lower().removesuffix(".gz").removesuffix(".zst")
    return lower.endswith(EXTENSIONS)


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
