"""Online learning: models that learn one sample at a time and predict QoS metrics some samples ahead."""

from tidegate.analysis.learning.ensemble import Ensemble
from tidegate.analysis.learning.learners import DEFAULT, LEARNERS, Learner, Reading, RiverLearner
from tidegate.analysis.learning.predictor import LearnedPrediction, Predictor, Replay, replay
from tidegate.analysis.learning.validation import ProgressiveScore

__all__ = [
    "DEFAULT",
    "LEARNERS",
    "Ensemble",
    "LearnedPrediction",
    "Learner",
    "Predictor",
    "ProgressiveScore",
    "Reading",
    "Replay",
    "RiverLearner",
    "replay",
]
