"""Provider hooks of hookwork-gemini."""
