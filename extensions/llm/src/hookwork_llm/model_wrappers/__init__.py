"""Models made of other models (models WRP): `FallbackModel`, `RouterModel`, `RedactedModel`, and what they share."""
