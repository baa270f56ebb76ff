"""Recordings in the form that google-adk shares between implementations (crosscutting CONF-1…10)."""
