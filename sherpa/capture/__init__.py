"""What happens between an agent's events and the memory: which case an event belongs to."""
