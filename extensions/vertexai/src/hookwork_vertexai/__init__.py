"""Agent Engine sessions, Memory Bank and RAG memory for Hookwork."""
