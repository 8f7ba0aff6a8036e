"""tokengrams: interpolated Kneser-Ney over a suffix table."""

from common import Peer
from tokengrams import InMemoryIndex

peer = Peer()


def fit():
    tokens = [code for case in peer.train for code in (peer.begin, *case, peer.end)]
    return InMemoryIndex(tokens, vocab=peer.types + 3)


def predict(model, history):
    return model.get_smoothed_probs([peer.begin, *history][-peer.order :])


peer.run(fit, predict)
