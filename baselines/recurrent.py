"""A recurrent rival: gated recurrent units over the whole prefix, on the CPU (extra ``learned``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sherpa.estimators.blended import Memory, after, classes_of
from sherpa.estimators.contexts import Targets, targets
from sherpa.eventlog import EventLog

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


class RecurrentModel:
    """A gated recurrent network (Cho et al. 2014) that reads a case symbol by symbol.

    One layer of `hidden` units over embeddings of half that size; Adam; trained on the first 80 % of the cases until
    the log loss on the last 20 % has not fallen for `patience` passes, at most `passes`, and the best state is kept.

    Parameters
    ----------
    hidden, passes, patience, batch : int
    rate : float
        Step size.
    longest : int
        Symbols of a case that are read; of longer cases the last ones.
    seed : int
    """

    memory: Memory = "all"

    def __init__(
        self,
        *,
        hidden: int = 64,
        passes: int = 60,
        patience: int = 6,
        batch: int = 32,
        rate: float = 3e-3,
        longest: int = 100,
        seed: int = 0,
    ) -> None:
        self._hidden, self._passes, self._patience = hidden, passes, patience
        self._batch, self._rate, self._longest, self._seed = batch, rate, longest, seed
        self.vocabulary: tuple[str, ...] = ()
        self.edges = 0
        self._state: Any = None
        self._spare = 1.0

    @property
    def classes(self) -> int:
        """Size of a distribution: the vocabulary, the end of the case, a type never seen."""
        return len(self.vocabulary) + 2

    def fit(self, log: EventLog) -> RecurrentModel:
        """Learn a log, its cases in order of time; returns self."""
        import jax
        import jax.numpy as jnp

        self.vocabulary = log.occurring
        asked = targets(log, self.vocabulary)
        self._spare = self.classes / (len(asked.place) + self.classes)
        if not len(asked.place):
            self._state = None
            return self
        inputs, wanted, weight = self._padded(asked)
        cut = len(inputs) - int(len(inputs) * 0.2)
        rng = np.random.default_rng(self._seed)
        state = _initial(rng, self.classes + 1, self._hidden, self.classes)

        def loss(state: Any, x: Any, y: Any, w: Any) -> Any:
            scores = jax.nn.log_softmax(_scores(state, x))
            taken = jnp.take_along_axis(scores, y[:, :, None], axis=2)[:, :, 0]
            return -(taken * w).sum() / w.sum()

        step = jax.jit(lambda s, m, x, y, w, t: _adam(s, m, jax.grad(loss)(s, x, y, w), t, self._rate))
        judge = jax.jit(loss)
        moments = jax.tree.map(lambda a: (jnp.zeros_like(a), jnp.zeros_like(a)), state)
        best, best_loss, bad, taken = state, np.inf, 0, 0
        for _ in range(self._passes):
            for rows in np.array_split(rng.permutation(cut), max(1, cut // self._batch)):
                # Batches of one size are compiled once.
                rows = np.resize(rows, self._batch)
                taken += 1
                state, moments = step(state, moments, inputs[rows], wanted[rows], weight[rows], taken)
            if cut == len(inputs):
                best = state
                continue
            losses = [
                float(judge(state, inputs[a : a + 256], wanted[a : a + 256], weight[a : a + 256]))
                * float(weight[a : a + 256].sum())
                for a in range(cut, len(inputs), 256)
            ]
            now = sum(losses) / float(weight[cut:].sum())
            if now < best_loss - 1e-4:
                best, best_loss, bad = state, now, 0
            else:
                bad += 1
                if bad >= self._patience:
                    break
        self._state = best
        self.edges = sum(int(np.prod(a.shape)) for a in jax.tree.leaves(best))
        return self

    def _padded(self, asked: Targets) -> tuple[Any, Any, Any]:
        """(symbols read, classes wanted, 1 where there is a target), a row per case."""
        cases = int(asked.case.max()) + 1 if len(asked.case) else 0
        length = min(self._longest, int(asked.depth.max()) if len(asked.depth) else 1)
        inputs = np.zeros((cases, length), np.int32)
        wanted = np.zeros((cases, length), np.int32)
        weight = np.zeros((cases, length), np.float32)
        sizes = np.bincount(asked.case, minlength=cases)
        at = asked.depth - 1 - np.maximum(sizes[asked.case] - length, 0)
        kept = at >= 0
        inputs[asked.case[kept], at[kept]] = self._symbol(asked.stream[asked.place[kept] - 1])
        wanted[asked.case[kept], at[kept]] = classes_of(asked, self.vocabulary)[kept]
        weight[asked.case[kept], at[kept]] = 1
        return inputs, wanted, weight

    def _symbol(self, codes: Int) -> Int:
        """Codes as inputs: the vocabulary, the end (unused), the begin, a type never seen."""
        return np.where(codes < 0, self.classes, codes)

    def ask(self, asked: Targets) -> Float:
        """Distributions before some targets, a row each. The cases are read from their begin."""
        import jax

        rows = np.full((len(asked.place), self.classes), self._spare / self.classes)
        if self._state is None or not len(rows):
            return np.full((len(rows), self.classes), 1 / self.classes)
        starts = asked.place - asked.depth
        scores = jax.jit(lambda x: jax.nn.softmax(_scores(self._state, x)))
        for block in np.array_split(np.unique(starts), max(1, len(np.unique(starts)) // 256)):
            mine = np.flatnonzero(np.isin(starts, block))
            length = int(asked.depth[mine].max())
            grid = block[:, None] + np.arange(length)[None, :]
            symbols = self._symbol(asked.stream[np.minimum(grid, len(asked.stream) - 1)])
            found = np.asarray(scores(symbols), dtype=float)
            rows[mine] += (1 - self._spare) * found[np.searchsorted(block, starts[mine]), asked.depth[mine] - 1]
        normed: Float = rows / rows.sum(axis=1, keepdims=True)
        return normed

    def predict_proba(self, log: EventLog, *, first: int = 1) -> Float:
        """Distributions before every event and end; see `sherpa.estimators.blended.BlendedModel.predict_proba`."""
        return self.ask(after(targets(log, self.vocabulary), first))


def _initial(rng: np.random.Generator, symbols: int, hidden: int, classes: int) -> dict[str, Any]:
    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    size = hidden // 2
    return {
        "embedding": normal(symbols, size) * np.float32(np.sqrt(symbols) * 0.3),
        "gates": normal(size + hidden, 2 * hidden),
        "gates_bias": np.zeros(2 * hidden, np.float32),
        "candidate": normal(size + hidden, hidden),
        "candidate_bias": np.zeros(hidden, np.float32),
        "out": normal(hidden, classes),
        "out_bias": np.zeros(classes, np.float32),
    }


def _scores(state: Any, symbols: Any) -> Any:
    """Scores of the classes after each symbol: (cases, length, classes)."""
    import jax
    import jax.numpy as jnp

    hidden = state["candidate_bias"].shape[0]

    def cell(h: Any, x: Any) -> tuple[Any, Any]:
        both = jnp.concatenate([x, h], axis=1)
        reset, update = jnp.split(jax.nn.sigmoid(both @ state["gates"] + state["gates_bias"]), 2, axis=1)
        fresh = jnp.tanh(jnp.concatenate([x, reset * h], axis=1) @ state["candidate"] + state["candidate_bias"])
        h = update * h + (1 - update) * fresh
        return h, h

    embedded = jnp.swapaxes(state["embedding"][symbols], 0, 1)
    _, states = jax.lax.scan(cell, jnp.zeros((symbols.shape[0], hidden)), embedded)
    return jnp.swapaxes(states, 0, 1) @ state["out"] + state["out_bias"]


def _adam(state: Any, moments: Any, gradient: Any, taken: Any, rate: float) -> tuple[Any, Any]:
    """One step of Adam (Kingma & Ba 2015) with the usual constants."""
    import jax.numpy as jnp

    def update(value: Any, moment: Any, slope: Any) -> tuple[Any, Any]:
        first = 0.9 * moment[0] + 0.1 * slope
        second = 0.999 * moment[1] + 0.001 * slope**2
        step = rate * (first / (1 - 0.9**taken)) / (jnp.sqrt(second / (1 - 0.999**taken)) + 1e-8)
        return value - step, (first, second)

    changed = {name: update(state[name], moments[name], gradient[name]) for name in state}
    return {name: pair[0] for name, pair in changed.items()}, {name: pair[1] for name, pair in changed.items()}
