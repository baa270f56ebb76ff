"""Hookwork in a terminal."""
