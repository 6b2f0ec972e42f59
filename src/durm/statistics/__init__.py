"""Numbers in, numbers out: the verdict, its intervals, sequential designs, planning, several settings at once."""
