"""vlmc: a Bayesian context tree (maximum a posteriori)."""

import vlmc
from common import Peer

peer = Peer()


def fit():
    # Rows are conditioned on their first symbols, so as many begins are put before each case.
    rows = [[peer.begin] * peer.order + case + [peer.end] for case in peer.train]
    model = vlmc.VLMC(alphabet_size=peer.types + 3, max_depth=peer.order)
    model.fit(rows)
    return model


def predict(model, history):
    return model.predict_proba([peer.begin] * peer.order + history)


peer.run(fit, predict)
