"""Frozen records in the wire form of genai and ADK, and their codec."""
