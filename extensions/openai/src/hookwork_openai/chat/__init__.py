"""Chat Completions, for compatible servers (models §8a)."""
