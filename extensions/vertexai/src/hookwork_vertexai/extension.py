"""Provider hooks of hookwork-vertexai."""
