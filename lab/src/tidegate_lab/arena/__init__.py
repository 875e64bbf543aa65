"""The arena: autoscalers from papers and products against Tidegate, on one plant, under loads none was tuned for."""
