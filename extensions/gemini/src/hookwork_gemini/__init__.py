"""Gemini API and Vertex AI models for Hookwork, live connections included."""
