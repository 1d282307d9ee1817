"""Web pages and schedules of conferences."""
