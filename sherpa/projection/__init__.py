"""What counts as a state: the raw type of each event, or its procedure and family beside it."""

from sherpa.projection.ontology import PROCEDURES, TASK_CLASSES, procedure_atom, running_families
from sherpa.projection.states import (
    STATE_SEPARATOR,
    Facets,
    StateVariant,
    join_state,
    split_state,
    state_variants,
    token_text,
)

__all__ = [
    "PROCEDURES",
    "STATE_SEPARATOR",
    "TASK_CLASSES",
    "Facets",
    "StateVariant",
    "join_state",
    "procedure_atom",
    "running_families",
    "split_state",
    "state_variants",
    "token_text",
]
