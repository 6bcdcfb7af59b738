"""The world of the end-to-end test: made, changed and described through the services' own APIs.

    scenario.sh setup                        make the world (or what is missing of it)
    scenario.sh expected [--include-existing]   describe it as it is now, and what must be delivered
    scenario.sh delete-server --server W
    scenario.sh add-port --server W --subnet a|b [--name N] [--down] [--owner tenant|admin] [--mac MAC]
    scenario.sh delete-port --port N
    scenario.sh move-port --port N --to W    detach, then attach to another server
    scenario.sh activate-port --port N       bind a DOWN port: the agent brings it up
    scenario.sh deactivate-port --port N     the opposite: the port goes DOWN and stays with its server
    scenario.sh revoke-tokens [--how password|disable] [--token T]
    scenario.sh cleanup

Each takes --prefix X (default e2e: everything is named X-..., two worlds can stand side by side) and --timeout
SECONDS for any single wait. W and N are the short names of the answer ("w0", "w0-a") or ids. The answer is one JSON
object on stdout, always the whole world (README.md has its shape), with "did" added by commands that change
something. Nothing is remembered between runs: all is found again by its name.
"""
import argparse
import datetime
import io
import json
import os
import sys
import time

if "OSBED_AUTH_URL" not in os.environ:  # called without the wrapper, which knows the settings and the venv
    wrapper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenario.sh")
    os.execv(wrapper, [wrapper, *sys.argv[1:]])

import keystoneauth1.exceptions  # noqa: E402
import openstack  # noqa: E402
import requests  # noqa: E402

import truth  # noqa: E402

PASSWORD = os.environ.get("OSBED_PASSWORD", "osbed-pw")
COMPUTE_HOST = os.environ.get("OSBED_COMPUTE_HOST", "osbed-compute")
TRUNK_VLAN = 100
# key -> (mtu, IPv4 network, is it a target). P is the servers' own network.
NETWORKS = {
    "p": (1500, "10.61.0.0/24", False),
    "a": (1500, "10.62.0.0/24", True),
    "b": (9000, "10.63.0.0/24", True),
}
IPV6 = {"a": "fd00:62::/64"}  # second subnets, never a target
# Server -> the ports it is created with; the first one is its primary NIC. Names are <server>-<what>.
SERVERS = {
    "w0": ["p", "a", "b", "early", "v6"],
    "w1": ["p", "a"],
    "w2": ["p", "trunk", "a"],
    "w3": ["p", "b"],
    "w4": ["p"],
}
# Shown as it is in Nova; the node's name is the lower-case form.
SERVER_NAMES = {"w1": "{prefix}-Worker-1"}
# Port -> what differs from "network of that letter, one address of its IPv4 subnet, owned by the tenant".
PORTS = {
    "w0-early": {"network": "a"},  # made before the config's creation time
    "w0-v6": {"network": "a", "ips": [("a6", None)]},
    "w0-a": {"ips": [("a", 90), ("a", 9)]},  # two addresses: .9 is the lower number, .90 the lower text
    "w1-late": {"network": "b"},  # attached to the running server
    "w1-admin": {"network": "a", "owner": "admin"},
    # Parent and subport of a trunk, with one MAC as usual. Neutron refuses a subport of a larger MTU than the parent's.
    "w2-trunk": {"network": "b"},
    "w2-sub": {"network": "a", "mac_of": "w2-trunk"},
    "w3-down": {"network": "a"},  # the server's by device_id, bound nowhere
}
ATTACHED_LATER = {"w1-late": "w1"}
ATTACHED_BY_ADMIN = {"w1-admin": "w1"}
LEFT_DOWN = {"w3-down": "w3"}
GIVEN = "attached past Nova"  # a port's description; Nova cannot detach what it did not attach


class Failure(Exception):
    """Something a person can act on; ends the program with that one line."""


class NotThere(Failure):
    """No server or port of that name; what is to be deleted is gone already."""


def wait_for(what, seconds, check, every=0.3):
    """Poll CHECK, which gives (done, what it saw), until it is done; bounded."""
    end = time.monotonic() + seconds
    while True:
        done, seen = check()
        if done:
            return seen
        if time.monotonic() > end:
            raise Failure(f"waited {seconds:g} s for {what}; last seen: {seen}")
        time.sleep(every)


def next_second():
    """Return once the wall clock shows a later second than now; created_at and revocations count whole ones."""
    time.sleep(1.05 - time.time() % 1)


class World:
    def __init__(self, args):
        self.args = args
        self.prefix = args.prefix
        self.admin = openstack.connect(cloud="osbed", api_timeout=60)
        self._tenant = None
        self.project = self.admin.identity.find_project(f"{self.prefix}-tenant", domain_id="default")

    # ---- who
    def connect_as(self, user_name):
        return openstack.connect(
            load_yaml_config=False,
            load_envvars=False,
            auth=dict(
                auth_url=os.environ["OSBED_AUTH_URL"],
                username=user_name,
                password=PASSWORD,
                project_id=self.project.id,
                user_domain_id="default",
            ),
            region_name=self.admin.config.region_name,
            identity_api_version="3",
            api_timeout=60,
        )

    @property
    def tenant(self):
        """The project's own member, so that what it makes belongs to the project."""
        if self._tenant is None:
            self._tenant = self.connect_as(f"{self.prefix}-member")
        return self._tenant

    def must_exist(self):
        if self.project is None:
            raise Failure(f"there is no world {self.prefix!r}: run setup first")

    def make_people(self):
        identity = self.admin.identity
        if self.project is None:
            self.project = identity.create_project(name=f"{self.prefix}-tenant", domain_id="default")
        # The operator's user as Contrabass hands it out: an administrator who has its role on the tenant's project.
        for name, roles in ((f"{self.prefix}-member", ("member",)), (f"{self.prefix}-operator", ("admin",))):
            user = identity.find_user(name, domain_id="default") or identity.create_user(
                name=name, password=PASSWORD, domain_id="default"
            )
            if not user.is_enabled:
                identity.update_user(user, is_enabled=True)
            for role in roles:
                identity.assign_project_role_to_user(self.project, user, identity.find_role(role))

    # ---- what there is, by short name
    def short(self, name):
        """The part of a name after the prefix, in lower case ("w0-a"); None for foreign things."""
        return name[len(self.prefix) + 1 :].lower() if name.startswith(self.prefix + "-") else None

    def networks(self):
        found = self.admin.network.networks(project_id=self.project.id)
        return {self.short(n.name): n for n in found if self.short(n.name)}

    def subnets(self):
        found = self.admin.network.subnets(project_id=self.project.id)
        return {self.short(s.name): s for s in found if self.short(s.name)}

    def servers(self):
        found = {s.name: s for s in self.tenant.compute.servers()}
        return {key: found[n] for key in SERVERS if (n := self.server_name(key)) in found}

    def ports(self):
        """All ports on the world's networks, whoever owns them, by short name (else by id)."""
        ours = {n.id for n in self.networks().values()}
        found = [p for p in self.admin.network.ports() if p.network_id in ours]
        return {self.short(p.name) or p.id: p for p in found}

    def server_name(self, key):
        return SERVER_NAMES.get(key, "{prefix}-worker-" + key[1:]).format(prefix=self.prefix)

    def server(self, text):
        servers = self.servers()
        for key, server in servers.items():
            if text in (key, server.id, server.name):
                return server
        raise NotThere(f"no server {text!r}; there are {', '.join(servers) or 'none'}")

    def port(self, text):
        ports = self.ports()
        for key, port in ports.items():
            if text in (key, port.id, port.name):
                return port
        raise NotThere(f"no port {text!r}; there are {', '.join(sorted(ports)) or 'none'}")

    # ---- making
    def make_networks(self):
        have, have_subnets = self.networks(), self.subnets()
        for key, (mtu, cidr, _) in NETWORKS.items():
            if key not in have:
                have[key] = self.tenant.network.create_network(name=f"{self.prefix}-{key}", mtu=mtu)
            wanted = [(key, 4, cidr)] + ([(key + "6", 6, IPV6[key])] if key in IPV6 else [])
            for name, version, net in wanted:
                if name not in have_subnets:
                    self.tenant.network.create_subnet(
                        network_id=have[key].id, name=f"{self.prefix}-{name}", ip_version=version, cidr=net
                    )

    def make_port(self, name, *, network=None, ips=None, owner="tenant", mac=None, **more):
        network = network or name.rsplit("-", 1)[1]
        subnets = self.subnets()
        fixed = []
        for key, number in ips or [(network, None)]:
            ip = {"subnet_id": subnets[key].id}
            if number:
                ip["ip_address"] = subnets[key].cidr.replace(".0/24", f".{number}")
            fixed.append(ip)
        if mac:
            more["mac_address"] = mac
        cloud = self.tenant if owner == "tenant" else self.admin
        return cloud.network.create_port(
            network_id=self.networks()[network].id, name=f"{self.prefix}-{name}", fixed_ips=fixed, **more
        )

    def make_ports(self):
        have = self.ports()
        if "w0-early" not in have:
            if set(have) & {f"{s}-{w}" for s, what in SERVERS.items() for w in what}:
                raise Failure("the port w0-early is gone, and only a fresh world can have it: run cleanup, then setup")
            have["w0-early"] = self.make_port("w0-early", **PORTS["w0-early"])
            # Its time, in whole seconds, must be before that of all other ports.
            next_second()
        for name in [f"{s}-{w}" for s, what in SERVERS.items() for w in what] + list(PORTS):
            if name not in have:
                how = dict(PORTS.get(name, {}))
                if "mac_of" in how:
                    how["mac"] = have[how.pop("mac_of")].mac_address
                have[name] = self.make_port(name, **how)
        # A bound port can become no trunk's parent with the openvswitch driver: before the server is made.
        if not list(self.admin.network.trunks(name=f"{self.prefix}-trunk")):
            subport = {"port_id": have["w2-sub"].id, "segmentation_type": "vlan", "segmentation_id": TRUNK_VLAN}
            self.tenant.network.create_trunk(
                name=f"{self.prefix}-trunk", port_id=have["w2-trunk"].id, sub_ports=[subport]
            )

    def make_servers(self):
        have, ports = self.servers(), self.ports()
        flavor = self.admin.compute.find_flavor("osbed.tiny") or self.admin.compute.create_flavor(
            name="osbed.tiny", ram=64, vcpus=1, disk=1
        )
        image = self.admin.image.find_image("osbed-empty") or self.admin.image.create_image(
            name="osbed-empty", disk_format="raw", container_format="bare", visibility="public",
            data=io.BytesIO(b"\0" * 1024),
        )  # fmt: skip
        for key, what in SERVERS.items():
            if key in have:
                continue
            for w in what:
                self.detach(ports[f"{key}-{w}"])
            self.tenant.compute.create_server(
                name=self.server_name(key), flavor_id=flavor.id, image_id=image.id,
                networks=[{"port": ports[f"{key}-{w}"].id} for w in what],
            )  # fmt: skip

        def all_active():
            now = self.servers()
            for key, s in now.items():
                if s.status == "ERROR":
                    raise Failure(f"server {key} is in ERROR: {(s.fault or {}).get('message')}; run cleanup")
            seen = {key: s.status for key, s in now.items()}
            return len(now) == len(SERVERS) and set(seen.values()) == {"ACTIVE"}, seen

        wait_for("all servers to be ACTIVE", self.args.timeout, all_active)

    def make_attachments(self):
        servers, ports = self.servers(), self.ports()
        wanted = {f"{s}-{w}": s for s, what in SERVERS.items() for w in what} | ATTACHED_LATER
        for name, key in wanted.items():
            if ports[name].device_id != servers[key].id:
                self.attach(self.detach(ports[name]), servers[key])
        for name, key in (ATTACHED_BY_ADMIN | LEFT_DOWN).items():
            host = COMPUTE_HOST if name in ATTACHED_BY_ADMIN else ""
            if (ports[name].device_id, ports[name].binding_host_id or "") != (servers[key].id, host):
                self.give(self.detach(ports[name]), servers[key], host)
        for name, port in self.ports().items():
            if not port.is_admin_state_up:
                self.admin.network.update_port(port, is_admin_state_up=True)
        for name in ATTACHED_BY_ADMIN | wanted:
            self.wait_status(ports[name], "ACTIVE")
        self.wait_status(ports["w3-down"], "DOWN")
        self.wait_status(ports["w2-sub"], "ACTIVE")

    # ---- changing
    def port_now(self, port):
        return self.admin.network.get_port(port.id)

    def wait_status(self, port, status):
        def check():
            now = self.port_now(port)
            return now.status == status, f"{now.name} is {now.status}"

        wait_for(f"port {port.name} to be {status}", self.args.timeout, check)

    def attach(self, port, server):
        """Through Nova, as a user does it."""
        self.tenant.compute.create_server_interface(server, port_id=port.id)
        self.wait_status(port, "ACTIVE")

    def give(self, port, server, host=""):
        """Past Nova, which refuses a port of another project (PortNotUsable). Without HOST it stays DOWN."""
        self.admin.network.update_port(
            port, device_id=server.id, device_owner="compute:nova", description=GIVEN, binding_host_id=host
        )

    def detach(self, port):
        if not port.device_id:
            return port
        server = next((s for s in self.servers().values() if s.id == port.device_id), None)
        if server and port.description != GIVEN:
            self.tenant.compute.delete_server_interface(port.id, server=server)
        else:
            self.admin.network.update_port(port, device_id="", device_owner="", description="", binding_host_id="")

        def check():
            now = self.port_now(port)
            return not now.device_id, f"device_id {now.device_id!r}"

        wait_for(f"port {port.name} to be detached", self.args.timeout, check)
        return self.port_now(port)

    # ---- describing
    def describe(self):
        self.must_exist()
        networks, subnets, servers, ports = self.networks(), self.subnets(), self.servers(), self.ports()
        trunks = list(self.admin.network.trunks(project_id=self.project.id))
        targets = [subnets[k].id for k, (_, _, is_target) in NETWORKS.items() if is_target and k in subnets]
        created = None
        if "w0-early" in ports:
            created = (truth.when(ports["w0-early"].created_at) + datetime.timedelta(seconds=1)).strftime("%FT%TZ")
        plain = {
            key: {
                "id": p.id,
                "name": p.name,
                "mac_address": p.mac_address,
                "status": p.status,
                "device_id": p.device_id or "",
                "device_owner": p.device_owner or "",
                "project_id": p.project_id,
                "network_id": p.network_id,
                "fixed_ips": p.fixed_ips,
                "created_at": p.created_at,
                "host": p.binding_host_id or "",
            }
            for key, p in ports.items()
        }
        expected = truth.expected(
            list(plain.values()),
            {s.id: {"id": s.id, "name": s.name} for s in servers.values()},
            {s.id: s.to_dict() for s in subnets.values()},
            {n.id: {"mtu": n.mtu} for n in networks.values()},
            targets=targets,
            created=None if self.args.include_existing else created,
        )
        for p in plain.values():
            p["verdict"] = expected["verdicts"].get(p["id"])
        return {
            "prefix": self.prefix,
            "operator": {
                # As in Contrabass's data.url: without /v3.
                "keystone_url": os.environ["OSBED_AUTH_URL"].removesuffix("/v3"),
                "user_name": f"{self.prefix}-operator",
                "password": PASSWORD,
                "domain_name": "default",
                "project_id": self.project.id,
                "region": self.admin.config.region_name,
                "neutron_url": os.environ["OSBED_NEUTRON_URL"],
                "nova_url": os.environ["OSBED_NOVA_URL"],
            },
            "tenant": {
                "project_id": self.project.id,
                "project_name": self.project.name,
                "user_name": f"{self.prefix}-member",
                "password": PASSWORD,
            },
            "config": {"created": created, "subnet_ids": targets, "vm_ids": [s.id for s in servers.values()]},
            "networks": {k: {"id": n.id, "name": n.name, "mtu": n.mtu} for k, n in networks.items()},
            "subnets": {
                k: {
                    "id": s.id,
                    "name": s.name,
                    "cidr": s.cidr,
                    "network_id": s.network_id,
                    "is_target": s.id in targets,
                }
                for k, s in subnets.items()
            },
            "servers": {
                k: {"id": s.id, "name": s.name, "node_name": s.name.lower(), "status": s.status}
                for k, s in servers.items()
            },
            "ports": plain,
            "trunks": [
                {"id": t.id, "port_id": t.port_id, "sub_port_ids": [s["port_id"] for s in t.sub_ports]} for t in trunks
            ],
            "expected": expected,
        }


# ------------------------------------------------------------------------------------------------ commands
def setup(world):
    world.make_people()
    world.make_networks()
    world.make_ports()
    world.make_servers()
    world.make_attachments()


def expected(world):
    world.must_exist()


def delete_server(world):
    world.must_exist()
    try:
        server = world.server(world.args.server)
    except NotThere:
        return {"server_id": None}
    before = {p.id for p in world.ports().values() if p.device_id == server.id}
    world.tenant.compute.delete_server(server)

    def check():
        now = [s.id for s in world.servers().values()]
        return server.id not in now, f"Nova still lists {server.id}"

    wait_for(f"server {server.name} to be gone", world.args.timeout, check)
    left = {p.id for p in world.ports().values()}
    return {"server_id": server.id, "name": server.name, "ports_kept": sorted(before & left),
            "ports_gone": sorted(before - left)}  # fmt: skip


def add_port(world):
    world.must_exist()
    a = world.args
    server, ports = world.server(a.server), world.ports()
    key = next(k for k, s in world.servers().items() if s.id == server.id)
    free = (f"{key}-added-{i}" for i in range(1000) if f"{key}-added-{i}" not in ports)
    name = a.name or next(free)
    if name in ports:
        raise Failure(f"there is a port {name!r} already")
    port = world.make_port(name, network=a.subnet, owner=a.owner, mac=a.mac)
    if a.down:
        world.give(port, server)
    elif a.owner == "admin":
        world.give(port, server, COMPUTE_HOST)
        world.wait_status(port, "ACTIVE")
    else:
        world.attach(port, server)
    return {"port": name, "port_id": port.id, "mac": port.mac_address, "server_id": server.id}


def delete_port(world):
    world.must_exist()
    try:
        port = world.detach(world.port(world.args.port))
    except NotThere:
        return {"port_id": None}
    world.admin.network.delete_port(port)
    return {"port_id": port.id, "mac": port.mac_address}


def move_port(world):
    world.must_exist()
    port, server = world.port(world.args.port), world.server(world.args.to)
    if port.device_id == server.id:
        return {"port_id": port.id, "from": server.id, "to": server.id}
    source, host, was_given = port.device_id, port.binding_host_id, port.description == GIVEN
    port = world.detach(port)
    if was_given:
        world.give(port, server, host)
        world.wait_status(port, "ACTIVE" if host else "DOWN")
    else:
        world.attach(port, server)
    return {"port_id": port.id, "from": source, "to": server.id}


def activate_port(world):
    world.must_exist()
    port = world.port(world.args.port)
    world.admin.network.update_port(port, binding_host_id=COMPUTE_HOST, is_admin_state_up=True)
    world.wait_status(port, "ACTIVE")
    return {"port_id": port.id}


def deactivate_port(world):
    world.must_exist()
    port = world.port(world.args.port)
    world.admin.network.update_port(port, is_admin_state_up=False)
    world.wait_status(port, "DOWN")
    return {"port_id": port.id}


def revoke_tokens(world):
    """Kill the tokens of the operator's user, whoever holds them, and prove it with one of the same user."""
    world.must_exist()
    identity, a = world.admin.identity, world.args
    user = identity.find_user(f"{world.prefix}-operator", domain_id="default", ignore_missing=False)
    probe = a.token or world.connect_as(user.name).session.get_token()
    asks = {
        "neutron": os.environ["OSBED_NEUTRON_URL"] + "/v2.0/networks?limit=1&fields=id",
        "nova": os.environ["OSBED_NOVA_URL"] + "/servers?limit=1",
    }

    def code(service, token):
        return requests.get(asks[service], headers={"X-Auth-Token": token}, timeout=60).status_code

    # Once before: a token that the services keep in a cache is the harder case.
    before = {s: code(s, probe) for s in asks}
    if a.token:
        identity.delete("/auth/tokens", headers={"X-Subject-Token": a.token}).raise_for_status()
        how = "token"
    else:
        how = a.how
        HOW[how](world, user)
    started, dead = time.monotonic(), {}
    for service in asks:

        def check():
            seen = code(service, probe)
            return seen == 401, f"{service} answers {seen} to a revoked token"

        wait_for(
            f"{service} to refuse it (services keep good tokens for OSBED_TOKEN_CACHE seconds: start the bed with"
            " less, or stop and start neutron and nova)",
            a.timeout, check,
        )  # fmt: skip
        dead[service] = round(time.monotonic() - started, 2)
    # Revocations count whole seconds: a login in the same one gets a token that is dead from the start.
    next_second()
    fresh = world.connect_as(user.name).session.get_token()
    after = {s: code(s, fresh) for s in asks}
    if set(after.values()) != {200}:
        raise Failure(f"a new token of {user.name} does not work: {after}")
    return {"how": how, "user_id": user.id, "before": before, "dead_after_seconds": dead, "fresh_login": after}


def set_same_password(world, user):
    # Any password given by an administrator, even the same one, kills the user's tokens. At no moment a login fails.
    world.admin.identity.update_user(user, password=PASSWORD)


def disable_and_enable(world, user):
    world.admin.identity.update_user(user, is_enabled=False)
    time.sleep(world.args.pause)
    world.admin.identity.update_user(user, is_enabled=True)


# A role that is taken away and given back is no third way: the old tokens work again.
HOW = {"password": set_same_password, "disable": disable_and_enable}


def cleanup(world):
    """All that has the prefix goes. What is gone already is fine."""
    identity, network, gone = world.admin.identity, world.admin.network, {}

    def drop(kind, things, delete):
        for thing in things:
            delete(thing)
            gone[kind] = gone.get(kind, 0) + 1

    if world.project is not None:
        own = {"project_id": world.project.id}
        compute = world.admin.compute

        def servers():
            return list(compute.servers(details=False, all_projects=True, **own))

        drop("servers", servers(), compute.delete_server)
        wait_for("servers to go", world.args.timeout, lambda: (not (left := servers()), f"{len(left)} servers"))
        drop("trunks", list(network.trunks(**own)), network.delete_trunk)
        for net in list(network.networks(**own)):
            drop("ports", list(network.ports(network_id=net.id)), network.delete_port)
            drop("networks", [net], network.delete_network)
        drop("security groups", list(network.security_groups(**own)), network.delete_security_group)
    for name in (f"{world.prefix}-member", f"{world.prefix}-operator"):
        user = identity.find_user(name, domain_id="default")
        drop("users", [user] if user else [], identity.delete_user)
    drop("projects", [world.project] if world.project else [], identity.delete_project)
    return gone


COMMANDS = {
    f.__name__.replace("_", "-"): f
    for f in (setup, expected, delete_server, add_port, delete_port, move_port, activate_port, deactivate_port,
              revoke_tokens, cleanup)
}  # fmt: skip


def parse(argv):
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--prefix", default="e2e")
    shared.add_argument("--timeout", type=float, default=120.0, help="seconds for any single wait")
    shared.add_argument("--include-existing", action="store_true", help="expect ports of any age")
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = top.add_subparsers(dest="command", required=True)
    p = {name: sub.add_parser(name, parents=[shared]) for name in COMMANDS}
    for name in ("delete-server", "add-port"):
        p[name].add_argument("--server", required=True)
    for name in ("delete-port", "move-port", "activate-port", "deactivate-port"):
        p[name].add_argument("--port", required=True)
    p["move-port"].add_argument("--to", required=True)
    p["add-port"].add_argument("--subnet", choices=sorted(NETWORKS), required=True)
    p["add-port"].add_argument("--name")
    p["add-port"].add_argument("--mac")
    p["add-port"].add_argument("--down", action="store_true")
    p["add-port"].add_argument("--owner", choices=("tenant", "admin"), default="tenant")
    p["revoke-tokens"].add_argument("--how", choices=sorted(HOW), default="password")
    p["revoke-tokens"].add_argument("--token", help="only this one, by its id")
    p["revoke-tokens"].add_argument("--pause", type=float, default=1.0, help="seconds that the user stays disabled")
    return top.parse_args(argv)


def main():
    args, started = parse(sys.argv[1:]), time.monotonic()
    try:
        world = World(args)
        did = COMMANDS[args.command](world)
        answer = {"prefix": args.prefix} if args.command == "cleanup" else world.describe()
    except (Failure, openstack.exceptions.SDKException, keystoneauth1.exceptions.ClientException,
            requests.RequestException) as e:  # fmt: skip
        sys.exit(f"scenario: {args.command}: {e}")
    if did is not None:
        answer["did"] = did
    answer["seconds"] = round(time.monotonic() - started, 1)
    json.dump(answer, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
