"""Vega specifications without their data."""
