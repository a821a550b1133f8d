"""The cleanup of staging as a Lambda."""
