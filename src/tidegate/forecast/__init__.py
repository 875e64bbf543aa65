"""What comes next: forecasts for thousands of streams, learned one sample at a time."""

from tidegate.forecast.arima import ArimaBank
from tidegate.forecast.forecaster import Forecast, Forecaster
from tidegate.forecast.selecting import SelectingBank

__all__ = ["ArimaBank", "Forecast", "Forecaster", "SelectingBank"]
