"""Engines: how the rows of a source come together as whole cases, and where the kernel runs.

All of them run the same kernel on whole cases and merge exactly, so all of them give the same table, whatever the
parts are.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from sherpa.counting import CountTable
from sherpa.errors import ConfigError
from sherpa.scale.cases import Job, cases_of, counting
from sherpa.scale.libraries import needed
from sherpa.scale.source import Source

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = needed("pyarrow", "scale")

R = TypeVar("R")
ENGINES = ("local", "duckdb", "ray", "spark")
DEFAULT_MEMORY = "2GB"
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


class Engine(Protocol):
    """Something that can do a job on the cases of a source.

    Attributes
    ----------
    name : str
    """

    name: str

    @abstractmethod
    def fold(self, source: Source, job: Job[R]) -> R:
        """Do the job on parts that hold every case of the source whole, and merge the results.

        Raises
        ------
        SourceError
            If the source cannot be read, or an event lacks its case or type.
        """

    def count(self, source: Source, max_order: int) -> CountTable:
        """Every edge of orders 1 to `max_order`: equal to `sherpa.counting.count` on all cases in one log."""
        if max_order < 1:
            raise ValueError(f"max_order is {max_order}; it must be at least 1")
        return self.fold(source, counting(max_order))


class LocalEngine(Engine):
    """Everything in the memory of this process: some fifty bytes per event and its case id while columns are sorted."""

    name = "local"

    def fold(self, source: Source, job: Job[R]) -> R:
        tables = [unit.read(details=job.details) for unit in source.units()]
        tables = [table for table in tables if len(table)]
        if not tables:
            return job.merge([])
        rows = pa.concat_tables(tables, promote_options="permissive")
        tables.clear()
        return job.merge([job.work(cases_of(rows))])


def engine_of(name: str, *, memory: str = DEFAULT_MEMORY, scratch: Path | None = None) -> Engine:
    """An engine by its name.

    Parameters
    ----------
    name : str
        One of `ENGINES`.
    memory : str
        What ``duckdb`` may use, for instance ``2GB``; the edges come on top. The others have their own settings.
    scratch : Path, optional
        Folder for what ``duckdb`` spills; the system's by default.

    Raises
    ------
    ConfigError
        If there is no such engine, its library is not installed, or the amount cannot be read.
    """
    if name == "local":
        return LocalEngine()
    if name == "duckdb":
        from sherpa.scale.on_duckdb import DuckDBEngine

        return DuckDBEngine(memory=bytes_of(memory), scratch=scratch)
    if name == "ray":
        from sherpa.scale.on_ray import RayEngine

        return RayEngine()
    if name == "spark":
        from sherpa.scale.on_spark import SparkEngine

        return SparkEngine()
    raise ConfigError(f"engine {name!r} is unknown; choose one of {', '.join(ENGINES)}")


def bytes_of(text: str) -> int:
    """Bytes of an amount of memory.

    >>> bytes_of("1.5GB")
    1500000000

    Raises
    ------
    ConfigError
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]I?B)", text.strip(), re.IGNORECASE | re.ASCII)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise ConfigError(f"{text!r} is no amount of memory; write it as 2GB or 512MB")
    return int(float(found[1]) * unit)
