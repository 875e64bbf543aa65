"""Analysis of recorded metrics: correlations, factors, drivers, online learning, profiles, and the report."""
