"""The framed child: one JSON document per line on standard input, one answer per line on standard output.

A request is ``{"id": 1, "operation": "next", "params": {…}}``; its answer holds the same id and either ``result`` or
``error`` with ``code`` and ``message``. Answers come as they are ready, not in the order of the requests.
"""

from __future__ import annotations

import re
import threading
from typing import IO

import msgspec

from sherpa.errors import OperationError
from sherpa.serve.guests import NOBODY, Guests
from sherpa.serve.service import Opening, decoded_parameters
from sherpa.serve.workers import Answer, Workers

LONGEST_LINE = 16 * 2**20
_FIRST = re.compile(rb'\s*\{\s*"id"\s*:\s*(\d{1,18})\s*[,}]')
_encoder = msgspec.json.Encoder()


class Request(msgspec.Struct):
    """One line of input."""

    id: int | str
    operation: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(Request)


def serve_lines(opening: Opening, source: IO[bytes], sink: IO[bytes], guests: Guests = NOBODY) -> None:
    """Answer until the input ends; what was accepted by then is done and answered.

    Raises
    ------
    SherpaError
        If the memory cannot be opened.
    """
    workers = Workers(opening, guests=guests)
    workers.start()
    writing = threading.Lock()

    def write(name: object, answer: Answer) -> None:
        head = b'{"id":' + _encoder.encode(name)
        if isinstance(answer, OperationError):
            line = head + b',"error":' + _encoder.encode({"code": answer.code, "message": str(answer)}) + b"}\n"
        else:
            line = head + b',"result":' + answer + b"}\n"
        try:
            with writing:
                sink.write(line)
                sink.flush()
        except (BrokenPipeError, ValueError):
            # Nobody listens any more; the work was done all the same.
            return

    try:
        while line := source.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                _skip(source)
                write(None, OperationError("too_large", f"a line is longer than {LONGEST_LINE:,} bytes"))
            elif line.strip():
                _accept(workers, line, write)
    finally:
        workers.close()


def _skip(source: IO[bytes]) -> None:
    while (rest := source.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
        pass


def _accept(workers: Workers, line: bytes, write: object) -> None:
    assert callable(write)
    name: int | str | None = None
    try:
        try:
            request = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            name = _name_of(line)
            raise OperationError("invalid_request", f"not a request: {error}") from None
        name = request.id
        operation = workers.operation_of(request.operation)
        parameters = decoded_parameters(operation, request.params)
        workers.submit(operation, parameters, lambda answer: write(request.id, answer))
    except OperationError as error:
        write(name, error)


def _name_of(line: bytes) -> int | None:
    """The id of a line that is no request, if it is a number and stands first: then somebody waits for the answer."""
    found = _FIRST.match(line)
    return int(found[1]) if found else None
