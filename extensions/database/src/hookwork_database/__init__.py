"""Sessions in SQL databases."""
