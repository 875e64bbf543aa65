"""Forecasts for thousands of streams, learned one sample at a time."""

from tidegate.evaluate.forecast.arima import ArimaBank
from tidegate.evaluate.forecast.arrivals import ArrivalForecaster, ArrivalPaths
from tidegate.evaluate.forecast.forecaster import Forecast, Forecaster
from tidegate.evaluate.forecast.selecting import SelectingBank

__all__ = ["ArimaBank", "ArrivalForecaster", "ArrivalPaths", "Forecast", "Forecaster", "SelectingBank"]
