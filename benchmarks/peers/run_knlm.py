"""knlm: modified Kneser-Ney."""

import knlm
import numpy as np
from common import Peer

peer = Peer()


def fit():
    model = knlm.KneserNey(peer.order + 1, 4)
    for case in peer.train:
        model.train([str(code) for code in (peer.begin, *case, peer.end)])
    model.optimize()
    return model


def predict(model, history):
    said = [str(code) for code in (peer.begin, *history)][-peer.order :]
    return np.exp([model.evaluate([*said, str(code)]) for code in range(peer.types + 1)])


peer.run(fit, predict)
