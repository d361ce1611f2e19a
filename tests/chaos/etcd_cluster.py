"""Three members of etcd on hosts of their own (campaign_hosts.py), set up as in packaging/ha."""
import json
import os
import re
import subprocess
import sys

CLIENT_PORT = 2379
PEER_PORT = 2380
# Sends a request to etcd's JSON gateway. Arguments: URL, body, and the TLS files.
POST = """
import ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[3])
context.load_cert_chain(*sys.argv[4:6])
urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode()), timeout=1, context=context)
"""
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/ha/etcd.default")


class EtcdCluster:
    """Starts the members and asks them. Each member has the name of its host."""

    def __init__(self, network, heads, ddprun, folder, prefix="/ddprun"):
        self._network = network
        self._heads = heads
        self._ddprun = ddprun
        self._folder = folder
        self._leader_key = prefix + "/leader"

    def make_certificates(self):
        names = [f"--host={head},{self._network.address(head)}" for head in self._heads]
        subprocess.run([self._ddprun, "certs", self.path("certs"), *names, "--name", "ddprun"], check=True,
                       capture_output=True)

    def path(self, *names):
        return os.path.join(self._folder, *names)

    def member(self, head, data):
        """The command of a member, with its state in `data`. The settings are those of packaging/ha/etcd.default, with
        the hosts and files of this cluster."""
        with open(EXAMPLE, encoding="utf-8") as file:
            settings = dict(line.strip().split("=", 1) for line in file if line.startswith("ETCD_"))
        settings = {key: value.replace("10.0.0.1", self._network.address(head))
                    .replace("/etc/etcd/head", self.path("certs", head)).replace("/etc/etcd", self.path("certs"))
                    for key, value in settings.items()}
        settings |= {"ETCD_NAME": head, "ETCD_DATA_DIR": data, "ETCD_INITIAL_CLUSTER": ",".join(
            f"{name}=https://{self._network.address(name)}:{PEER_PORT}" for name in self._heads)}
        return ["env", *(f"{key}={value}" for key, value in settings.items()), "etcd"]

    def flags(self, head):
        """The flags of `ddprun rendezvous`."""
        return ["--etcd", ",".join(f"{self._network.address(name)}:{CLIENT_PORT}" for name in self._heads),
                "--etcd-ca", self.path("certs/ca.crt"), "--etcd-cert", self.path("certs", head + ".crt"),
                "--etcd-key", self.path("certs", head + ".key")]

    # ---- the state of etcd, as the router sees it, which nothing cuts off ----

    def ctl(self, *arguments, head=None, stdin=b""):
        """The output of etcdctl; None if it failed."""
        tls = ["--cacert", self.path("certs/ca.crt"), "--cert", self.path("certs", self._heads[0] + ".crt"),
               "--key", self.path("certs", self._heads[0] + ".key")]
        asked = [head] if head else self._heads
        endpoints = ",".join(f"https://{self._network.address(name)}:{CLIENT_PORT}" for name in asked)
        done = subprocess.run(["ip", "netns", "exec", self._network.router, "etcdctl", "--endpoints", endpoints, *tls,
                               "--command-timeout", "1s", "--dial-timeout", "500ms", *arguments], check=False,
                              input=stdin, capture_output=True, env={**os.environ, "ETCDCTL_API": "3"})
        return done.stdout.decode(errors="replace") if done.returncode == 0 else None

    def _get(self, *options):
        return self.ctl("get", self._leader_key, "-w", "json", *options)

    def leader_key(self):
        """The leader key: its mod_revision ("term"), its version ("writes"), and the "head" of the endpoint in it.
        None if there is no key or no answer."""
        answer = self._get("--consistency", "s")
        values = json.loads(answer).get("kvs") if answer else None
        text = self.ctl("get", self._leader_key, "--print-value-only", "--consistency", "s") if values else None
        heads = [head for head in self._heads if text and re.search(
            re.escape(self._network.address(head)) + r":\d", text)]
        if not heads:
            return None
        return {"term": values[0]["mod_revision"], "writes": values[0]["version"], "head": heads[0]}

    def revision(self):
        answer = self._get()
        return json.loads(answer)["header"]["revision"] if answer else None

    def status(self):
        """For each member that answers, by its head: its own id and the id of its leader."""
        found = {}
        for head in self._heads:
            answer = self.ctl("endpoint", "status", "-w", "json", head=head)
            for one in json.loads(answer or "[]") or []:
                found[head] = (one["Status"]["header"]["member_id"], one["Status"].get("leader", 0))
        return found

    def leader(self):
        """The head whose member leads; None if this is not known."""
        status = self.status()
        return next((head for head, (own, leader) in status.items() if own == leader), None)

    def set_full(self):
        """Raises the alarm NOSPACE of a member, just as a member without space does. From then on no member takes a
        write. (etcdctl can only disarm.) Returns False if this failed."""
        for head, (own, _) in self.status().items():
            asked = {"action": "ACTIVATE", "memberID": str(own), "alarm": "NOSPACE"}
            certs = [self.path("certs", name) for name in ("ca.crt", self._heads[0] + ".crt", self._heads[0] + ".key")]
            url = f"https://{self._network.address(head)}:{CLIENT_PORT}/v3/maintenance/alarm"
            done = subprocess.run(["ip", "netns", "exec", self._network.router, sys.executable, "-c", POST, url,
                                   json.dumps(asked), *certs], check=False, capture_output=True)
            if done.returncode == 0:
                return True
        return False

    def has_space_again(self):
        """Disarms the alarm. Returns False if this failed."""
        return self.ctl("alarm", "disarm") is not None and self.ctl("alarm", "list") == ""

    def move_leader(self, head):
        """Moves etcd's leader to this head. Returns False if this failed."""
        status, leader = self.status(), self.leader()
        if head not in status or leader is None:
            return False
        return leader == head or self.ctl("move-leader", f"{status[head][0]:x}", head=leader) is not None
