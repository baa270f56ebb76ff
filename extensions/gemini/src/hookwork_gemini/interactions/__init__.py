"""The Interactions API: conversations that the service keeps (models Beyond, services BEY-8)."""
