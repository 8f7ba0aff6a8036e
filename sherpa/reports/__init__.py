"""Reports on a memory as a whole: its types, its transitions, its use."""
