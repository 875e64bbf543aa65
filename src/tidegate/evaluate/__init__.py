"""From raw samples to reliable numbers: rates, service times, and the quality of the metrics."""
