"""Files: uploads, artifacts, the result cache and blob stores."""
