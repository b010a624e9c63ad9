"""What `cems install` puts in place and `cems uninstall` takes away: the plugin, or entries in the agent's settings file, and
the services. Each part says what files it consists of; `steps` compares, shows, writes and removes them."""
