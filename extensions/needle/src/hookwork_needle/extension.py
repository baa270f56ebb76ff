"""Provider hooks of hookwork-needle."""
