"""Detects abnormal samples online: scores in [0, 1], one threshold for all series, bounded memory."""

from tidegate.evaluate.abnormality.detector import Detector
from tidegate.evaluate.abnormality.gaussian import GAUSSIAN_THRESHOLD, WindowedGaussian
from tidegate.evaluate.abnormality.surprise import THRESHOLD, SurpriseDetector
from tidegate.evaluate.abnormality.watch import ABNORMAL, Verdict, Watch

__all__ = [
    "ABNORMAL",
    "GAUSSIAN_THRESHOLD",
    "THRESHOLD",
    "Detector",
    "SurpriseDetector",
    "Verdict",
    "Watch",
    "WindowedGaussian",
]
