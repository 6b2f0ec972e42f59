"""The paper: its numbers, its experiments as recipes."""
