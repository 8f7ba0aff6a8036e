"""Plans: what is tested and how is written down, and can be frozen, before the numbers are seen."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from baselines.registry import BASELINES, NAMED, PUBLISHED, RIVALS
from experiments.dataset import Dataset
from experiments.splits import SPLITS
from sherpa.config import STRATEGIES
from sherpa.errors import LocatedError
from sherpa.files import write_whole

SHERPA_ARMS = tuple(f"sherpa-{name}" for name in STRATEGIES)
ARMS = (*SHERPA_ARMS, *BASELINES, *NAMED)

Share = Annotated[float, Meta(gt=0, lt=1)]
Margin = Annotated[float, Meta(ge=0, lt=1)]
Positive = Annotated[int, Meta(ge=1)]


class PlanError(LocatedError):
    """A plan is malformed, or cannot be frozen."""


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    pass


class Recurrence(_Strict, frozen=True, kw_only=True):
    """H1."""

    treatment: str = "sherpa-raw"
    control: str = "global-majority"
    smallest_effect: Margin = 0.02


class Abstraction(_Strict, frozen=True, kw_only=True):
    """H2."""

    treatment: str = "sherpa-family-procedure"
    control: str = "sherpa-raw"
    margin: Margin = 0.02


class Superiority(_Strict, frozen=True, kw_only=True):
    """H3."""

    treatment: str = "sherpa-raw"
    controls: Annotated[tuple[str, ...], Meta(min_length=1)] = RIVALS


class Advice(_Strict, frozen=True, kw_only=True):
    """H4."""

    harm_limit: Share = 0.05


class Transfer(_Strict, frozen=True, kw_only=True):
    """H5."""

    treatment: str = "sherpa-raw"
    floor: str = "global-majority"
    share_of_groups: Share = 2 / 3


class Plan(_Strict, frozen=True, kw_only=True):
    """Everything that a gate run is free to choose."""

    schema_version: Literal[1] = 1
    name: str = "unnamed"
    split: str = "leave-one-case-out"
    folds: Annotated[int, Meta(ge=2)] = 5
    test_fraction: Share = 0.3
    cluster: Literal["case", "group"] = "case"
    cluster_pattern: str | None = None
    two_level: bool = False
    metric: Literal["top-k", "top-1"] = "top-k"
    top_k: Positive = 3
    alpha: Share = 0.05
    level: Share = 0.95
    resamples: Annotated[int, Meta(ge=100)] = 10_000
    seed: Annotated[int, Meta(ge=0)] = 0
    min_clusters: Positive = 20
    min_support: Positive = 2
    default_order: Positive = 3
    max_order: Positive = 5
    online: bool = False
    fallback: bool = True
    annotations: bool = False
    h1: Recurrence = msgspec.field(default=Recurrence(), name="H1")
    h2: Abstraction = msgspec.field(default=Abstraction(), name="H2")
    h3: Superiority = msgspec.field(default=Superiority(), name="H3")
    h4: Advice = msgspec.field(default=Advice(), name="H4")
    h5: Transfer = msgspec.field(default=Transfer(), name="H5")

    @property
    def arms(self) -> tuple[str, ...]:
        """Every predictor that some hypothesis names, each once, strategies first."""
        named = {
            *(self.h1.treatment, self.h1.control, self.h2.treatment, self.h2.control),
            *(self.h3.treatment, *self.h3.controls, self.h5.treatment, self.h5.floor),
        }
        return tuple(arm for arm in ARMS if arm in named or arm in SHERPA_ARMS)


def load_plan(path: Path | None) -> tuple[Plan, bytes]:
    """A plan from TOML, and its bytes; the plan of the package without a path.

    Raises
    ------
    PlanError
        Names the field that is wrong.
    """
    if path is None:
        data = files("experiments").joinpath("default_plan.toml").read_bytes()
    else:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PlanError(f"cannot be read: {error.strerror or error}", file=path) from None
    try:
        plan = msgspec.convert(tomllib.loads(data.decode("utf-8")), Plan)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"broken TOML: {error}", file=path) from None
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        raise PlanError(problem, file=path, field=place.strip("`").removeprefix("$.") or None) from None
    _check(plan, path)
    return plan, data


def parity_plan(plan: Plan) -> Plan:
    """The plan with the original's rivals and its minimum support of 1."""
    controls = tuple(name for name in plan.h3.controls if name in PUBLISHED)
    return msgspec.structs.replace(
        plan, min_support=1, h3=msgspec.structs.replace(plan.h3, controls=controls or PUBLISHED)
    )


def _check(plan: Plan, path: Path | None) -> None:
    if plan.split not in SPLITS:
        raise PlanError(f"{plan.split!r} is unknown; choose one of {', '.join(SPLITS)}", file=path, field="split")
    if plan.cluster_pattern is not None:
        try:
            groups = re.compile(plan.cluster_pattern).groups
        except re.error as error:
            raise PlanError(f"is not a regular expression: {error}", file=path, field="clusterPattern") from None
        if groups != 1:
            raise PlanError("needs exactly one group, the name of the cluster", file=path, field="clusterPattern")
    named = [("H1.treatment", plan.h1.treatment), ("H1.control", plan.h1.control)]
    named += [("H2.treatment", plan.h2.treatment), ("H2.control", plan.h2.control)]
    named += [("H3.treatment", plan.h3.treatment), *(("H3.controls", c) for c in plan.h3.controls)]
    named += [("H5.treatment", plan.h5.treatment), ("H5.floor", plan.h5.floor)]
    for field, arm in named:
        if arm not in ARMS:
            raise PlanError(f"{arm!r} is unknown; choose one of {', '.join(ARMS)}", file=path, field=field)


def sha256(data: bytes) -> str:
    """Hash of some bytes."""
    return hashlib.sha256(data).hexdigest()


# -- freezing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """Whether a run confirms, and what stands against it.

    `registered` is True where a frozen plan lay beside the plan, honoured or not.
    """

    confirmatory: bool
    reasons: tuple[str, ...]
    registered: bool

    @property
    def name(self) -> str:
        return "confirmatory" if self.confirmatory else "exploratory"


def frozen_path(plan: Path) -> Path:
    """Where the frozen plan lies: beside the plan."""
    return plan.with_name(plan.name + ".frozen.json")


def log_path(plan: Path) -> Path:
    """Where every opening of the test data is recorded: beside the frozen plan."""
    return plan.with_name(plan.name + ".runs.jsonl")


def preregister(path: Path, datasets: Sequence[Dataset], *, now: str, version: str) -> dict[str, Any]:
    """Freeze a plan and the datasets that it will be tested on.

    Raises
    ------
    PlanError
        If it is frozen already: a second registration would erase the first.
    """
    plan, data = load_plan(path)
    target = frozen_path(path)
    if target.exists():
        raise PlanError(f"is frozen already; a new plan needs a new file (see {target.name})", file=path)
    frozen = {
        "schemaVersion": 1,
        "plan": plan.name,
        "planSha256": sha256(data),
        "planText": data.decode("utf-8"),
        "datasets": [{"name": d.name, "path": d.path, "sha256": d.sha256} for d in datasets],
        "frozenAt": now,
        "sherpaVersion": version,
    }
    write_whole(target, (json.dumps(frozen, indent=2, ensure_ascii=False) + "\n").encode())
    return frozen


def open_test(
    path: Path | None, data: bytes, datasets: Sequence[Dataset], *, now: str, overridden: bool = False
) -> Mode:
    """Decide whether a run is confirmatory, and record that the test data were opened.

    `overridden` says that the command line changed what the plan says.

    The record is on disk before any number is computed, so an interrupted run counts as an opening too.
    """
    if path is None or not frozen_path(path).exists():
        return Mode(False, ("the plan was not preregistered",), False)
    try:
        frozen = json.loads(frozen_path(path).read_text(encoding="utf-8"))
        registered = {entry["sha256"] for entry in frozen["datasets"]}
        plan_hash = frozen["planSha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(f"the frozen plan cannot be read ({error})", file=frozen_path(path)) from None
    reasons = []
    if plan_hash != sha256(data):
        reasons.append("the plan was changed after it was preregistered")
    if overridden:
        reasons.append("the command line overrides the plan")
    given = {d.sha256 for d in datasets}
    strangers = [d.name for d in datasets if d.sha256 not in registered]
    if strangers:
        reasons.append(f"not the preregistered data: {', '.join(strangers)}")
    if registered - given:
        reasons.append("a preregistered dataset is missing from the run")
    log = log_path(path)
    openings = log.read_text(encoding="utf-8").count("\n") if log.exists() else 0
    if openings:
        times = "time" if openings == 1 else "times"
        reasons.append(f"the test data were opened {openings} {times} before")
    entry = {"openedAt": now, "planSha256": sha256(data), "datasets": sorted(given)}
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return Mode(not reasons, tuple(reasons), True)
