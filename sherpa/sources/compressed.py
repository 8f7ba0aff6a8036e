"""Files that may be gzipped, and errors that name them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from sherpa.errors import SourceError


def bare_suffix(path: Path) -> str:
    """The suffix in lower case, without ``.gz``."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def bare_stem(path: Path) -> str:
    """The file name without its format and compression suffixes."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return Path(name).stem


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain or gzipped file (told by its first bytes) for reading.

    Raises
    ------
    SourceError
        If it is missing, a folder, unreadable, or its compressed data is damaged.
    """
    if path.is_dir():
        raise SourceError("is a folder; name a file", file=path)
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if packed:
                with gzip.open(raw) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            else:
                yield raw
    except FileNotFoundError:
        raise SourceError("there is no such file", file=path) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"the compressed data is damaged ({error})", file=path) from None
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None
