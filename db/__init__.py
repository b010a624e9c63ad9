"""All that knows Postgres: embedded server, migrations, roles, transactions, named queries, search."""
