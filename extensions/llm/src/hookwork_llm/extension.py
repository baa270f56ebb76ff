"""Provider hooks of hookwork-llm."""
