"""Experiments: how a claim about procedural memory is tested."""

from experiments.dataset import Dataset, load_dataset
from experiments.protocol import Predictions, PredictionTable, run
from experiments.splits import Fold, Split, make_split

__all__ = ["Dataset", "Fold", "PredictionTable", "Predictions", "Split", "load_dataset", "make_split", "run"]
