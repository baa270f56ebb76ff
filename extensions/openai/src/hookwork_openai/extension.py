"""Provider hooks of hookwork-openai."""
