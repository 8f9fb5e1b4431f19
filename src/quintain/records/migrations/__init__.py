"""The ledger's migrations, run by Alembic when a ledger is opened."""
