"""A toy verifier kind: runs trusted code in this process."""
