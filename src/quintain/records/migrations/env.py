"""Alembic's entry: runs migrations on the connection it is handed, inside the transaction that is open on it."""

from alembic import context

from quintain.records.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
