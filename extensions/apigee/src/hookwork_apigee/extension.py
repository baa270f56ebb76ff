"""Provider hooks of hookwork-apigee."""
