"""What any client can do with jobs, and how job types are registered."""
