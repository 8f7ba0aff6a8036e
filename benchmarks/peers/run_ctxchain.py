"""ctxchain: variable order, hierarchical Pitman-Yor smoothing."""

import ctxchain as cx
import numpy as np
from common import Peer

peer = Peer()


def fit():
    sequences = [[str(code) for code in (peer.begin, *case, peer.end)] for case in peer.train]
    states = [str(code) for code in range(peer.types + 3)]
    data = cx.SequenceDataset.from_sequences(sequences, states=states)
    spec = cx.VariableOrder(max_depth=peer.order)
    return cx.fit(cx.accumulate(data, spec), spec, estimator=cx.estimators.HPYP())


def predict(model, history):
    found = model.predict_next([str(peer.begin), *(str(code) for code in history)])
    row = np.zeros(peer.types + 1)
    for state, p in found.top(len(row) + 8):
        if str(state).isdigit() and int(state) <= peer.types:
            row[int(state)] = p
    return row


peer.run(fit, predict)
