"""What runs inside the sandbox for environments that are Python classes or modules.

    kind        load the code, begin an episode, answer its calls
    code        a pack's files as modules, and the entries among them
    signatures  public methods as tools
    shapes      annotations as JSON Schema, and JSON as what they ask for
    docs        function-doc files, which describe tools instead of signatures
    plain       the state, and results, as JSON

Imported by the class's own interpreter; it uses the standard library and nothing of the platform.
"""
