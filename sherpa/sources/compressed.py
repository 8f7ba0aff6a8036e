"""Files that may be compressed (gzip, Zstandard), and errors that name them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from sherpa.errors import SourceError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def bare_suffix(path: Path) -> str:
    """The suffix in lower case, without ``.gz`` or ``.zst``."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def bare_stem(path: Path) -> str:
    """The file name without its format and compression suffixes."""
    packed = path.suffix.lower() in (".gz", ".zst")
    return Path(path.stem if packed else path.name).stem


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a Zstandard stream, all its frames; a frame that ends early is an `EOFError`."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        self._raw = raw
        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor
        self._frame: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._raw.read(1 << 17)
                if not self._packed:
                    if self._frame is not None:
                        raise EOFError("it ends in the middle of a frame")
                    return 0
            if self._frame is None:
                self._frame = self._new().decompressobj()
            try:
                self._ready = memoryview(self._frame.decompress(self._packed))
            except self._error as error:
                raise EOFError(str(error)) from None
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def zstd_reader(raw: IO[bytes], file: str | Path) -> IO[bytes]:
    """The unpacked bytes of a Zstandard stream.

    Raises
    ------
    SourceError
        If the decoder is not installed. While reading, `EOFError` means that the data is damaged.
    """
    try:
        return io.BufferedReader(_Unpacked(raw), 1 << 20)
    except ImportError:
        raise SourceError("is compressed with Zstandard; install the package zstandard to read it", file=file) from None


def zstd_unpack(data: bytes, limit: int) -> bytes | None:
    """Zstandard data unpacked; None if it is damaged, larger than `limit` bytes, or no decoder is installed."""
    try:
        unpacked = zstd_reader(io.BytesIO(data), "").read(limit + 1)
    except (SourceError, EOFError):
        return None
    return unpacked if len(unpacked) <= limit else None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain, gzipped or Zstandard file (told by its first bytes) for reading.

    Raises
    ------
    SourceError
        If it is missing, a folder, unreadable, or its compressed data is damaged.
    """
    if path.is_dir():
        raise SourceError("is a folder; name a file", file=path)
    try:
        with open(path, "rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start.startswith(_GZIP):
                with gzip.open(raw) as unpacked:
                    yield cast("IO[bytes]", unpacked)
            elif start == _ZSTD:
                yield zstd_reader(raw, path)
            else:
                yield raw
    except FileNotFoundError:
        raise SourceError("there is no such file", file=path) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(f"the compressed data is damaged ({error})", file=path) from None
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}", file=path) from None
