"""The Spark side of the contract shares the tests' embedded cluster."""

from tests.spark.conftest import spark as spark
