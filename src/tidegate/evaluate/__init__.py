"""From raw samples to numbers that can be trusted: rates, service times, and the verdict on their quality."""
