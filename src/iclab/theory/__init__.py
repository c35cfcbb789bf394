"""Predictions and conditions of the theorems, independent of any measurement."""
