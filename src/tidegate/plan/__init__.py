"""Planners propose, guards limit: from what is known to what is wanted, with reasons."""
