"""What must be true when a task of the incident room is done."""

import re


def verdict(right):
    return {"result": "complete" if right else "others"}


def facts(state):
    return {name: value for name, value in state.items() if name != "_episode"}


def acknowledged(state, ids):
    wanted = facts(state)
    for alert in wanted["alerts"]:
        alert["acknowledged"] = alert["acknowledged"] or alert["id"] in ids
    return wanted


def words(answer):
    return re.findall(r"[a-z0-9.]+(?:-[a-z0-9]+)*", (answer or "").lower())


def verify_acknowledged(initial_state, final_state, variables):
    return verdict(facts(final_state) == acknowledged(initial_state, [variables["ids"][1]]))


def verify_version_told(initial_state, final_state, final_answer, variables):
    """The present version, not only the one that was seen before; and how it is."""
    text = (final_answer or "").lower()
    versions = re.findall(r"(?<!\d)\d{1,3}\.\d{1,3}\.\d{1,3}(?!\d)", text)
    ill = re.search(r"unhealthy|unwell|\b(not|isn.t|no longer) (currently )?(healthy|well)|\bfailing|\bdown\b", text)
    well = not ill and re.search(r"\bhealthy|\bwell\b|\bfine\b|\bok\b|\bup\b", text)
    right = versions[:1] == [variables["new"]] and set(versions) <= {variables["new"], variables["old"]}
    told = right and bool(well if variables["well"] else ill)
    return verdict(facts(final_state) == facts(initial_state) and told)


def verify_put_right(initial_state, final_state, variables):
    wanted = acknowledged(initial_state, [variables["ids"][3]])
    version = variables["bad"] if variables["leak"] else variables["good"][0]
    wanted["restarted"] = [{"service": variables["name"], "version": version}]
    return verdict(facts(final_state) == wanted)


def verify_storm(initial_state, final_state, final_answer, variables):
    ids, names = variables["ids"], variables["names"]
    wanted = acknowledged(initial_state, [ids[0], ids[1], ids[3]])
    wanted["restarted"] = [{"service": names[3], "version": "4.3.0"}]
    wanted["incidents"] = [{"service": names[3], "severity": variables["severity"]}]
    wanted["paged"] = [variables["teams"][0]]
    named = [word for word in words((final_answer or "").replace(".", " ")) if word in names]
    return verdict(facts(final_state) == wanted and bool(named) and (named[0] == names[3] or set(named) == {names[3]}))
