"""The Realtime API: live sessions (models §8b)."""
