"""The worlds that Tidegate steers, each behind the same port: live Spark, a host's processes, and the simulator."""
