"""pm4py: the directly-follows graph; the next event by its frequency after the last one."""

import datetime

import numpy as np
import pandas as pd
import pm4py
from common import Peer

peer = Peer()
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def fit():
    rows = [
        (str(number), str(code), START + datetime.timedelta(seconds=at))
        for number, case in enumerate(peer.train)
        for at, code in enumerate(case)
    ]
    frame = pd.DataFrame(rows, columns=["case:concept:name", "concept:name", "time:timestamp"])
    follows, _, ends = pm4py.discover_dfg(frame)
    table = np.zeros((peer.types + 3, peer.types + 1))
    for (a, b), times in follows.items():
        table[int(a), int(b)] = times
    for a, times in ends.items():
        table[int(a), peer.end] = times
    return table


def predict(table, history):
    row = table[history[-1]]
    return row / row.sum() if row.sum() else row


peer.run(fit, predict)
