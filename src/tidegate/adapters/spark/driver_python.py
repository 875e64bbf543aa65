"""`tidegate-python`: a Python for the driver that attaches Tidegate to the given script.

    spark-submit --conf spark.pyspark.driver.python=tidegate-python … job.py arguments

puts an unchanged job under control. The policy is the file that `spark.tidegate.policy` or the variable TIDEGATE_POLICY
names. Without either, the default policy only recommends. Spark starts it as `tidegate-python job.py arguments`;
anything else is passed to the plain interpreter.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.adapters.spark.attach import Gate, attach
from tidegate.adapters.spark.ending import Ending
from tidegate.adapters.spark.unchanged import Sessions, run_script
from tidegate.domain import Mode

POLICY = "spark.tidegate.policy"
logger = logging.getLogger("tidegate")


def main() -> None:
    """Entry point of the console script."""
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    logging.basicConfig(level=logging.WARNING, format="tidegate: %(message)s")
    ending = Ending(logger.warning)
    try:
        run_script(Path(sys.argv[1]), sys.argv[2:], Sessions(lambda spark: attached(spark, ending)))
    finally:
        ending.left()
        if ending.gate is not None:
            ending.gate.stop()


def attached(spark: SparkSession, ending: Ending) -> Gate:
    """Attach with the policy that the submission names."""
    policy = spark.sparkContext.getConf().get(POLICY) or os.environ.get("TIDEGATE_POLICY") or None
    gate = attach(spark, policy, mode=None if policy else Mode.RECOMMEND)
    ending.spark, ending.gate = spark, gate
    ending.listen()
    logger.warning("attached in mode %s; journal: %s", gate.policy.mode, gate.journal.path)
    return gate


if __name__ == "__main__":
    main()
