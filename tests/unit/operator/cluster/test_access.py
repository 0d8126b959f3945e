"""What an operator holds of the cluster."""

import asyncio

from support.fake_cluster import KEY


def test_of_code_and_claims_that_are_named_no_more_nothing_is_held(cluster):
    access = cluster.access()
    topology = cluster.store().get("Topology", KEY.namespace, KEY.name)
    held = []
    for number, version in enumerate("abc", 1000):
        code = {"configMaps": [f"{version}-1", f"{version}-2"]}
        topology["spec"] |= {"code": code, "checkpoint": {"persistentVolumeClaim": version}}
        topology["metadata"]["resourceVersion"] = str(number)
        access._store.put("Topology", topology)
        asyncio.run(access.observe(KEY))
        held.append(sorted(name for _, _, name in access._others))
    access._store.remove("Topology", KEY.namespace, KEY.name, topology["metadata"]["uid"])
    asyncio.run(access.observe(KEY))
    assert held == [["a", "a-1", "a-2"], ["b", "b-1", "b-2"], ["c", "c-1", "c-2"]]
    assert access._others == {}
