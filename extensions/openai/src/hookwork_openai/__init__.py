"""OpenAI Responses, Chat Completions of any compatible server, and Realtime for Hookwork."""
