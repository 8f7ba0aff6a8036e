"""What the adapters share: the task as lists of codes, and the answer as a matrix."""

import json
import sys
import time

import numpy as np


class Peer:
    """Reads a task, times fit and predictions, writes the answer.

    Codes 0 to types − 1 are event types; `end` is the code of the end of a case, `begin` of its begin, `other` of a
    type that was never learned.
    """

    def __init__(self):
        with open(sys.argv[1]) as file:
            task = json.load(file)
        self.types, self.order = task["types"], task["order"]
        self.end, self.begin, self.other = self.types, self.types + 1, self.types + 2
        self.train = task["train"]
        self.test = [[self.other if code < 0 else code for code in case] for case in task["test"]]

    def histories(self):
        """The prefixes of one event or more of every test case."""
        for case in self.test:
            for length in range(1, len(case) + 1):
                yield case[:length]

    def run(self, fit, predict):
        """Time `fit()`, then `predict(model, history)`, which gives probabilities of the types and the end."""
        begun = time.perf_counter()
        model = fit()
        fitted = time.perf_counter()
        rows, known = [], {}
        for history in self.histories():
            key = tuple(history)
            if key not in known:
                known[key] = np.asarray(predict(model, history), dtype=float)[: self.types + 1]
            rows.append(known[key])
        asked = time.perf_counter()
        p = np.vstack(rows)
        # A distribution over more symbols than can come is cut down, and may leave something to types never seen.
        total = p.sum(axis=1, keepdims=True)
        np.savez(
            sys.argv[2],
            p=np.where(total > 1, p / np.where(total > 0, total, 1), p),
            seconds=[fitted - begun, asked - fitted],
        )
