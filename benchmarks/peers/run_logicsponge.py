"""logicsponge-processmining: n-grams with backtracking, the mean of several window lengths."""

import datetime

import numpy as np
from common import Peer
from logicsponge.processmining.algorithms_and_structures import NGram
from logicsponge.processmining.models import BasicMiner

peer = Peer()
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
WINDOWS = range(2, 6)


def event(case, code):
    return {"case_id": case, "activity": code, "timestamp": START}


def fit():
    miners = [BasicMiner(algorithm=NGram(window_length=w, recover_lengths=list(range(w)))) for w in WINDOWS]
    for miner in miners:
        stop = miner.config["stop_symbol"]
        for number, case in enumerate(peer.train):
            for code in case:
                miner.update(event(str(number), str(code)))
            miner.update(event(str(number), stop))
    return miners


def predict(miners, history):
    total = np.zeros(peer.types + 1)
    for miner in miners:
        found = miner.sequence_metrics([event("asked", str(code)) for code in history])["probs"]
        for symbol, p in found.items():
            total[peer.end if symbol == miner.config["stop_symbol"] else int(symbol)] += p / len(miners)
    return total


peer.run(fit, predict)
