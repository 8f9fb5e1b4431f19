"""What an imported BFCL pack runs beside BFCL's own classes. Standard library only; copied into the pack as text."""
