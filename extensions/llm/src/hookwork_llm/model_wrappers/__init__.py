"""Models made of other models (models WRP): `FallbackModel`, `RouterModel`, and what they share."""
