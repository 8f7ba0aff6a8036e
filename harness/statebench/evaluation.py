"""The evaluation without a model: each run is left out once, and its request is the query for the others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from experiments.intervals import RESAMPLES, cluster_bootstrap
from harness.statebench.build import build
from harness.statebench.lexical import tokens
from harness.statebench.measures import NAMES, TASK, measure
from harness.statebench.nexttool import next_tool_hits
from harness.statebench.parity import parity_cards
from harness.statebench.redaction import Redactor
from harness.statebench.retrieval import Corpus, Learnings, Settings
from harness.statebench.rivals import Method, by_chance, original, plain, reference, shipped
from harness.statebench.trajectories import Trajectory, run_files
from sherpa.errors import SourceError

Rows = dict[str, list[dict[str, float]]]
"""Measures of each query, in the order of the runs, by domain."""
SHIPPED, REFERENCE, PLAIN, ORIGINAL, RANDOM = "sherpa", "bm25-reference", "bm25", "original", "random"
CHANCES = 20
"""Orders by chance that are averaged for each query."""
GRID = tuple(
    Settings(temperature=temperature, pool=pool, candidates=candidates, relevance=relevance)
    for temperature, pool, candidates, relevance in product((1.5, 3.0, 6.0), (15, 30), (8, 15), (0.0, 1.0))
)
OFF_DOMAIN = (
    "Write a Python function that sorts a list of numbers",
    "What is the capital of France and how many people live there",
    "Explain the second law of thermodynamics to a child",
    "Translate this poem into German and keep the rhyme",
    "My sourdough does not rise, which flour should it have",
    "Summarise the plot of a novel about whales",
    "Prove that there are infinitely many primes",
    "Which exercises help against a stiff neck",
)
"""Requests of no domain; an answer to them is noise."""


@dataclass(frozen=True)
class Options:
    """What is measured.

    Attributes
    ----------
    seed : int
        Of chance, of the paraphrases and of the bootstrap.
    resamples : int
    cross_fit : bool
        Choose the settings of the retrieval on two domains and test them on the third, for each.
    """

    seed: int = 20260513
    resamples: int = RESAMPLES
    cross_fit: bool = True


def task_types(folder: Path, checkout: Path) -> dict[str, list[str]]:
    """Task type of every run, by domain and place, from a checkout of the benchmark. They are used to measure only.

    Raises
    ------
    SourceError
        If a task is missing or has no type.
    """
    found: dict[str, list[str]] = {}
    for domain, _, path in run_files(folder):
        task = checkout / "state_bench" / "domains" / domain / "tasks" / path.name
        try:
            named = json.loads(task.read_text(encoding="utf-8"))["task_type"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SourceError(f"gives no task type ({type(error).__name__})", file=task, field="task_type") from None
        found.setdefault(domain, []).append(str(named))
    return found


def evaluate(
    runs: Sequence[Trajectory],
    types: Mapping[str, Sequence[str]] | None = None,
    options: Options | None = None,
    watch: Callable[[int], None] = lambda _done: None,
) -> dict[str, Any]:
    """The report: measures of every method, paired differences, what answers cost and leak, next tools.

    Parameters
    ----------
    runs : sequence of Trajectory
        Sorted by domain.
    types : mapping, optional
        From `task_types`; without it the measures of task types are None.
    options : Options, optional
    watch : callable
        Is told how many of the `stages` of the work are done.
    """
    options = options or Options()
    artefact = build(runs)
    learnings = Learnings(artefact)
    domains = {domain: list(group) for domain, group in groupby(runs, key=lambda run: run.domain)}
    cards = list(parity_cards(runs, Redactor().collect(runs)))
    rows: dict[str, Rows] = {SHIPPED: {}, REFERENCE: {}, PLAIN: {}, ORIGINAL: {}, RANDOM: {}}
    halved: dict[str, Rows] = {SHIPPED: {}, PLAIN: {}}
    for domain, members in domains.items():
        known = None if types is None else types[domain]
        corpus = _corpus(learnings, domain)
        methods = {
            SHIPPED: shipped(corpus, members),
            REFERENCE: reference(members),
            PLAIN: plain(members),
            ORIGINAL: original(cards, domain),
        }
        for name, method in methods.items():
            rows[name][domain] = _measured(method, members, known)
        rows[RANDOM][domain] = _by_chance(members, known, options.seed)
        for name in halved:
            halved[name][domain] = _measured(methods[name], members, known, lambda run: half(run.opening, options.seed))
        watch(1)
    report = {
        "runs": {domain: len(members) for domain, members in domains.items()},
        "labels": types is not None,
        "measures": {name: _levels(method) for name, method in rows.items()},
        "differences": {
            f"{SHIPPED} - {rival}": _differences(rows[SHIPPED], rows[rival], options)
            for rival in (REFERENCE, PLAIN, ORIGINAL, RANDOM)
        },
        "halfTheWords": {name: _levels(method) for name, method in halved.items()},
        "answers": _answers(learnings, domains, runs, options.seed),
        "nextTool": _next_tools(domains, options),
    }
    watch(1)
    if options.cross_fit and len(domains) > 1:
        report["crossFitted"] = _cross_fitted(artefact, domains, types, rows[REFERENCE], options)
        watch(1)
    return report


def stages(runs: Sequence[Trajectory], options: Options) -> int:
    """Steps of `evaluate`, for a progress bar."""
    return len({run.domain for run in runs}) + 1 + options.cross_fit


def half(text: str, seed: int) -> str:
    """Every other word left out by chance: a paraphrase at its crudest. The same text loses the same words."""
    rng = random.Random(f"{seed}:{text}")
    kept = text.split()
    return " ".join(kept[at] for at in sorted(rng.sample(range(len(kept)), (len(kept) + 1) // 2)))


def _corpus(learnings: Learnings, domain: str) -> Corpus:
    corpus = learnings.corpus(domain)
    assert corpus is not None  # built from the same runs
    return corpus


def _measured(
    method: Method,
    runs: Sequence[Trajectory],
    types: Sequence[str] | None,
    query: Callable[[Trajectory], str] = lambda run: run.opening,
) -> list[dict[str, float]]:
    return [measure(method(run, query(run)), run, runs, types) for run in runs]


def _by_chance(runs: Sequence[Trajectory], types: Sequence[str] | None, seed: int) -> list[dict[str, float]]:
    rng = random.Random(seed)
    draws = [_measured(by_chance(runs, rng), runs, types) for _ in range(CHANCES)]
    # Tools of no shown run have no precision in some draws: the mean is over those that have.
    return [
        {name: fmean(values) for name in NAMES if (values := [draw[at][name] for draw in draws if name in draw[at]])}
        for at in range(len(runs))
    ]


def _levels(rows: Rows) -> dict[str, dict[str, float | None]]:
    """Mean of each measure by domain and over all queries; None where nothing was measured."""
    parts = dict(rows) | {"pooled": [row for domain in rows.values() for row in domain]}
    return {part: {name: _mean(queries, name) for name in NAMES} for part, queries in parts.items()}


def _mean(rows: Iterable[Mapping[str, float]], name: str) -> float | None:
    values = [row[name] for row in rows if name in row]
    return fmean(values) if values else None


def _differences(ours: Rows, theirs: Rows, options: Options) -> dict[str, Any]:
    """Paired differences over all queries, the query being the unit that is resampled."""
    found: dict[str, Any] = {}
    for name in NAMES:
        pairs = [
            mine[name] - other[name]
            for domain in ours
            for mine, other in zip(ours[domain], theirs[domain], strict=True)
            if name in mine and name in other
        ]
        found[name] = paired(pairs, options.seed, options.resamples)
    return found


def paired(differences: Sequence[float], seed: int, resamples: int = RESAMPLES) -> dict[str, Any] | None:
    """Mean difference with its interval (bias-corrected bootstrap over the pairs); None without two pairs."""
    if len(differences) < 2:
        return None
    boot = cluster_bootstrap(
        differences, np.ones(len(differences)), rng=np.random.default_rng(seed), resamples=resamples
    )
    interval = boot.interval(0)
    return {"difference": interval.estimate, "interval": interval.to_json()}


def _answers(
    learnings: Learnings, domains: Mapping[str, Sequence[Trajectory]], runs: Sequence[Trajectory], seed: int
) -> dict[str, Any]:
    """What answers cost, repeat, leave empty and leak, and how they hold when half of the query's words are gone."""
    redactor = Redactor().collect(runs)
    sizes, repeats, empty, leaks, kept = [], 0, 0, 0, []
    for domain, members in domains.items():
        corpus = _corpus(learnings, domain)
        for run in members:
            cards = corpus.retrieve(run.opening, 3, without=run.place)
            sizes.append(sum(tokens(card.text) for card in cards))
            repeats += len({card.text for card in cards}) < len(cards)
            empty += not cards
            leaks += sum(bool(redactor.leaks(card.text)) for card in cards)
            again = corpus.retrieve(half(run.opening, seed), 3, without=run.place)
            kept.append(len({card.id for card in cards} & {card.id for card in again}) / max(1, len(cards)))
    noise = [bool(_corpus(learnings, domain).retrieve(query, 3)) for domain in domains for query in OFF_DOMAIN]
    queries = len(sizes)
    return {
        "queries": queries,
        "tokensMean": fmean(sizes),
        "tokensMax": max(sizes),
        "duplicateRate": repeats / queries,
        "emptyRate": empty / queries,
        "leaks": leaks,
        "keptWithHalfTheWords": fmean(kept),
        "answeredOffDomain": sum(noise) / len(noise),
    }


def _next_tools(domains: Mapping[str, Sequence[Trajectory]], options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for domain, members in domains.items():
        lexical = reference(members)

        def near(run: Trajectory, lexical: Method = lexical) -> list[int]:
            return [at for at in lexical(run, run.opening).ranking if at is not None]

        with_them = next_tool_hits(members, near)
        alone = next_tool_hits(members, near, of_neighbours=0.0)
        found[domain] = {
            "targets": sum(map(len, with_them)),
            "top1": _share(with_them, 0, options),
            "top3": _share(with_them, 1, options),
            "graphAlone": {"top1": _share(alone, 0, options), "top3": _share(alone, 1, options)},
        }
    return found


def _share(hits: Sequence[Sequence[tuple[bool, bool]]], which: int, options: Options) -> dict[str, Any]:
    """Share of right answers, its interval by resampling runs."""
    right = [sum(pair[which] for pair in run) for run in hits]
    asked = [len(run) for run in hits]
    if len(hits) < 2:
        return {"estimate": sum(right) / sum(asked), "interval": None}
    boot = cluster_bootstrap(right, asked, rng=np.random.default_rng(options.seed), resamples=options.resamples)
    interval = boot.interval(0)
    return {"estimate": interval.estimate, "interval": interval.to_json()}


def _cross_fitted(
    artefact: dict[str, Any],
    domains: Mapping[str, Sequence[Trajectory]],
    types: Mapping[str, Sequence[str]] | None,
    rival: Rows,
    options: Options,
) -> dict[str, Any]:
    """The retrieval with settings that were chosen without the domain they are tested on, so that no test is tuned on.

    The settings of `GRID` with the highest sum of the measures (tools aside) on the other domains are taken.
    """
    judged = [name for name in NAMES if not name.startswith("tool") and (types is not None or name not in TASK)]
    tried: list[tuple[Settings, Rows]] = []
    for settings in GRID:
        learnings = Learnings(artefact, settings)
        tried.append((settings, dict(_each_domain(learnings, domains, types))))
    chosen: dict[str, Settings] = {}
    rows: Rows = {}
    for domain in domains:
        others = [name for name in domains if name != domain]

        def worth(trial: tuple[Settings, Rows], others: list[str] = others) -> float:
            queries = [row for name in others for row in trial[1][name]]
            return sum(_mean(queries, name) or 0.0 for name in judged)

        settings, measured = max(tried, key=worth)
        chosen[domain], rows[domain] = settings, measured[domain]
    return {
        "settings": {
            domain: {
                "temperature": s.temperature,
                "pool": s.pool,
                "candidates": s.candidates,
                "relevance": s.relevance,
                "topics": s.topics,
            }
            for domain, s in chosen.items()
        },
        "measures": _levels(rows),
        "differences": {f"{SHIPPED} - {REFERENCE}": _differences(rows, rival, options)},
    }


def _each_domain(
    learnings: Learnings, domains: Mapping[str, Sequence[Trajectory]], types: Mapping[str, Sequence[str]] | None
) -> Iterator[tuple[str, list[dict[str, float]]]]:
    for domain, members in domains.items():
        known = None if types is None else types[domain]
        yield domain, _measured(shipped(_corpus(learnings, domain), members), members, known)
