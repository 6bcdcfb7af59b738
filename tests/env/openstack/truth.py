"""What the operator should deliver, worked out from plain API objects. Pure: no I/O, no clock.

It follows section 4 of the contract (ports -> interfaces) for a config that delivered nothing before, and shares
no line with the operator, so that the two can be held against each other.
"""
import datetime
import ipaddress
import re

LIMIT = 10  # interfaces per node
MTU_RANGE = range(68, 9001)
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def when(text):
    """Neutron's created_at, with or without a zone (then UTC); None if it is no time."""
    try:
        parsed = datetime.datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)


def mac_of(port):
    digits = re.sub(r"[^0-9a-f]", "", port["mac_address"].lower())
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def choose_address(port, targets):
    """(address, subnet) in the first target subnet that the port has an IPv4 address in, the lowest one there."""
    for subnet in targets:
        if subnet["ip_version"] != 4 or subnet["network_id"] != port["network_id"]:
            continue
        here = [ipaddress.ip_address(ip["ip_address"]) for ip in port["fixed_ips"] if ip["subnet_id"] == subnet["id"]]
        if here:
            return min(here), subnet
    return None


def verdict_of(port, targets, baseline, statuses):
    if port["device_owner"] and not port["device_owner"].startswith("compute:"):
        return "OwnerNotCompute"
    if port["status"] and port["status"].upper() not in statuses:
        return "StatusNotAllowed"
    if not any(ipaddress.ip_address(ip["ip_address"]).version == 4 for ip in port["fixed_ips"]):
        return "NoIPv4"
    if choose_address(port, targets) is None:
        return "NoTargetSubnet"
    if baseline is not None:
        created = when(port["created_at"])
        if created is None:
            return "NoCreationTime"
        if created < baseline:
            return "BeforeBaseline"
    return "Selected"


def interface(port, targets, networks):
    address, subnet = choose_address(port, targets)
    return {
        "mac": mac_of(port),
        "address": str(address),
        "cidr": subnet["cidr"],
        "mtu": networks[port["network_id"]]["mtu"],
        "port_id": port["id"],
        "network_id": port["network_id"],
        "subnet_id": subnet["id"],
        "status": port["status"],
    }


def is_valid(found):
    macs = {i["mac"] for i in found}
    return len(macs) == len(found) and all(
        i["mtu"] in MTU_RANGE and ipaddress.ip_address(i["address"]) in ipaddress.ip_network(i["cidr"]) for i in found
    )


def expected(ports, servers, subnets, networks, *, targets, created=None, statuses=("ACTIVE", "DOWN")):
    """{"nodes": {node: {"instance_id", "interfaces": [... by MAC]}}, "verdicts": {port id: word}, "skipped": {vm: reason}}

    ports: every port of the cloud that may matter; servers, subnets, networks: by id; targets: subnet ids in the
    config's order; created: the config's creation time, or None when existing ports are included.
    """
    order = [subnets[i] for i in targets]
    baseline = when(created) if created else None
    claims, verdicts, skipped = {}, {}, {}
    for server in servers.values():
        mine = [p for p in ports if p["device_id"].lower() == server["id"].lower()]
        words = {p["id"]: verdict_of(p, order, baseline, statuses) for p in mine}
        chosen = [p for p in mine if words[p["id"]] == "Selected"]
        chosen.sort(key=lambda p: (targets.index(choose_address(p, order)[1]["id"]), mac_of(p), p["id"]))
        words.update((p["id"], "OverLimit") for p in chosen[LIMIT:])
        verdicts.update(words)
        found = sorted((interface(p, order, networks) for p in chosen[:LIMIT]), key=lambda i: i["mac"])
        node = server["name"].lower()
        if not found:
            continue
        if not is_valid(found):
            skipped[server["id"]] = "InvalidPort"
        elif len(node) > 63 or not NODE_NAME.fullmatch(node):
            skipped[server["id"]] = "InvalidNodeName"
        else:
            claims.setdefault(node, []).append({"instance_id": server["id"], "interfaces": found})
    nodes = {node: claim[0] for node, claim in claims.items() if len(claim) == 1}
    skipped.update((c["instance_id"], "NodeConflict") for claim in claims.values() if len(claim) > 1 for c in claim)
    return {"nodes": nodes, "verdicts": verdicts, "skipped": skipped}
