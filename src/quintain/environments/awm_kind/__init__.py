"""What runs inside the sandbox for the database environments of Agent World Model.

    kind      load a scenario, begin an episode, answer its calls
    database  the seed database, and what failed while it was built
    sqlite    every connection goes to the episode's own database
    app       the scenario's code, loaded as it is
    tools     the app's operations as tools
    dispatch  a tool call as a request to the app
    warmup    broad exercise before forking, and whether it would show

Imported by the class's own interpreter, which has FastAPI and SQLAlchemy and nothing of the platform.
"""
