"""Predictors: Sherpa's strategies and their rivals, behind one contract."""

from baselines.predictor import Predictor, Ranking
from baselines.procedural_memory import ProceduralMemoryPredictor

__all__ = ["Predictor", "ProceduralMemoryPredictor", "Ranking"]
