"""The MCP server: memories for an agent that asks for them, in three steps (index line, what happened around it, full text)."""
