"""Documents and recordings with known content, and the scores of what tools read in them."""
