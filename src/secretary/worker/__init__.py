"""Claims jobs, runs them and keeps the store in order."""
