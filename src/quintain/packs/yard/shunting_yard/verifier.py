"""What must be true of the yard in the end."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def stands(initial, final, tracks, departed=None, repaired=()):
    """Whether wagons stand so and nothing else has happened; tracks that are not named are as they were."""
    return (
        final["tracks"] == {**initial["tracks"], **tracks}
        and final["engine"] == []
        and final["departed"] == (departed or {})
        and final["repaired"] == list(repaired)
    )


def verify_moved(initial_state, final_state, variables):
    names, goal = variables["names"], variables["goal"]
    return verdict(stands(initial_state, final_state, {"T1": [names[1], names[2]], goal: [names[0]]}))


def verify_found(initial_state, final_state, final_answer, variables):
    named = set(re.findall(r"W-\d+", final_answer or ""))
    tracks = set(re.findall(r"T\d", final_answer or ""))
    right = named == {variables["wanted"]} and tracks == {"T2" if variables["place"] < 2 else "T3"}
    return verdict(right and stands(initial_state, final_state, {}))


def verify_dug_out(initial_state, final_state, variables):
    names, depth = variables["names"], variables["depth"]
    kept = [name for place, name in enumerate(names) if place != depth]
    return verdict(stands(initial_state, final_state, {"T1": kept, variables["next"]: [names[depth]]}))


def verify_train(initial_state, final_state, variables):
    n = variables["n"]
    train = {variables["town"]: {"wagons": [n[1], n[2], n[0]], "tested": True}}
    tracks = {"T1": [n[3]], "T2": [n[4]], "T3": []}
    return verdict(stands(initial_state, final_state, tracks, train, [variables["worn"]]))


def verify_two_trains(initial_state, final_state, variables):
    """Any order will do in which no hazardous wagon stands first."""
    n, towns, trains = variables["n"], variables["towns"], final_state["departed"]
    wanted = {towns[0]: {n[0], n[2], n[4]}, towns[1]: {n[1], n[3], n[5]}}
    right = {town: set(train["wagons"]) for town, train in trains.items()} == wanted
    safe = all(train["tested"] and train["wagons"][0] not in (n[1], n[4]) for train in trains.values())
    tracks = {name: [] for name in initial_state["tracks"]}
    return verdict(right and safe and stands(initial_state, final_state, tracks, trains, [variables["worn"]]))
