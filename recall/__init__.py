"""The read path: what gives memories back to a session. It can only read."""
