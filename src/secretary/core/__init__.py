"""What the whole program shares: jobs, errors, file types, processes."""
