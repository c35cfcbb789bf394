"""Experiments that are in none of the papers."""
