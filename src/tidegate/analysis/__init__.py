"""What recorded metrics tell: correlations, factors, drivers, online learning, profiles, and the report of them all."""
