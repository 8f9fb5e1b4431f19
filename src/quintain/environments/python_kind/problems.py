"""What can be wrong with code that is to be an environment."""


class CodeError(Exception):
    """The code cannot be an environment, or cannot begin so; the message says where and what to do."""


class MismatchError(Exception):
    """A JSON value is not what an annotation asks for."""
