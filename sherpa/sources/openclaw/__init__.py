"""OpenClaw: transcripts of every generation, archives and the per-agent store, read as typed events."""

from sherpa.sources.openclaw.events import Mapped, Mapping
from sherpa.sources.openclaw.sessions import Installation, ReadOptions, Session
from sherpa.sources.openclaw.taxonomy import GRANULARITIES, Granularity, Taxonomy, Tool, load_taxonomy

__all__ = [
    "GRANULARITIES",
    "Granularity",
    "Installation",
    "Mapped",
    "Mapping",
    "ReadOptions",
    "Session",
    "Taxonomy",
    "Tool",
    "load_taxonomy",
]
