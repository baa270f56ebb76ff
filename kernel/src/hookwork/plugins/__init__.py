"""Plugins: markers, discovery, ordered dispatch, the base class."""
