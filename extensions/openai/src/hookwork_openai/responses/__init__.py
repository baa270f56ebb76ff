"""The Responses API (models §8)."""
