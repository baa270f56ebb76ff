"""Live connections to Gemini models (models §7)."""
