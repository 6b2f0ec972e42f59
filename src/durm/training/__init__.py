"""The one loop that trains every trial."""
