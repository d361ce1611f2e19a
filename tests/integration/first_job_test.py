#!/usr/bin/python3
"""Runs the commands of docs/first-job.md as its reader does, on two hosts that are network namespaces.

    tests/integration/first_job_test.py [BIN]        as root; build/bin by default

The test fails if the page has a command that is not run here; scripts/check_docs.py finds this, too, with rehearse().
The test also fails if no command has printed a line of output that the page shows. All numbers and the random part of a
folder's name may differ. """
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/chaos"), str(ROOT / "scripts")]
import shown_commands  # noqa: E402
from campaign import left_out, why_impossible  # noqa: E402
from campaign_hosts import LEFT_LIMIT_S, Guard, Network, read, run, wait_until  # noqa: E402

PAGE = ROOT / "docs/first-job.md"
HANG = 240  # seconds: reached only when something hangs


class Failure(Exception):
    pass


class Switch(Network):
    """All hosts on one switch, as with cables: a link that is up again needs no route of its own."""

    def address(self, host):
        return f"10.77.0.{self._hosts.index(host) + 1}"

    def make(self):
        lines = ["set -e", f"ip netns add {self.router}", f"ip -n {self.router} link add switch type bridge",
                 f"ip -n {self.router} link set switch up"]
        for host in self._hosts:
            name = self.namespace(host)
            lines += [f"ip netns add {name}",
                      f"ip -n {self.router} link add {host} type veth peer name eth0 netns {name}",
                      f"ip -n {self.router} link set {host} master switch up",
                      f"ip -n {name} link set lo up",
                      f"ip -n {name} addr add {self.address(host)}/24 dev eth0",
                      f"ip -n {name} link set eth0 up"]
        run("sh", "-c", "\n".join(lines))


class Page:
    """The commands and the lines of output in the code blocks of a page."""

    def __init__(self, text):
        self.output = shown_commands.all_outputs(text)
        self._commands = shown_commands.commands(text)

    def take(self, beginning):
        """Returns the next command. It must begin like this."""
        command = self._commands.pop(0) if self._commands else "nothing more"
        if not command.startswith(beginning):
            raise Failure(f"the page has '{command}' where this test runs '{beginning}...'")
        return command

    def expect_programs_in(self, install):
        """Checks: the remaining commands use only programs of the packages in `install`, or of every Debian."""
        words = {word for command in self._commands for word in re.findall(r"(?:^|[;&|(] *)([a-z][\w-]*)", command)}
        if any(".py" in command for command in self._commands):
            words.add("python3")
        for program in sorted(words - {"ddprun"}):
            path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")  # programs of Debian, not of the user
            if path and not is_on_every_debian(path) and not package_of(path) & set(install.split()):
                raise Failure(f"the page uses '{program}', and its `apt-get install` does not install it")

    def expect_end(self):
        if self._commands:
            raise Failure(f"the page has commands that this test does not run: {self._commands}")

    def expect_output(self, printed):
        for line in self.output:
            pattern = re.sub(r"\d+(\\\.\d+)?", r"\\d+(\\.\\d+)?", re.escape(line))
            pattern = re.sub(r"\\-\w{6}/step", r"\\-\\w{6}/step", pattern)
            if not re.search(f"^{pattern}$", printed, re.M):
                raise Failure(f"nothing like this line of the page was printed: {line}")


def package_of(path):
    """The names of the package that has this program; empty if dpkg does not know the program."""
    for name in (path, path.removeprefix("/usr")):  # packages may still have /bin/..., not /usr/bin/...
        found = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if found.returncode == 0:
            package = found.stdout.split(":")[0]
            return {package, package.removesuffix("-minimal")}
    return set()


def is_on_every_debian(path):
    shown = subprocess.run(["dpkg-query", "--show", "--showformat", "${Essential} ", *package_of(path)],
                           capture_output=True, text=True)
    return "yes" in shown.stdout


class Terminal:
    """A command that runs on a host, and what it has printed."""

    def __init__(self, argv, path):
        self.path = path
        with open(path, "wb") as file:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def says(self, text):
        one_says([self], text)

    def has_ended(self):
        return self._process.poll() is not None

    def ends(self):
        wait_until(self.has_ended, HANG)
        if (code := self._process.poll()) != 0:
            raise Failure(f"expected 0, found {code}: {' '.join(self._process.args[-1:])}: {read(self.path)}")

    def stop(self):
        self._process.terminate()
        self.ends()


def one_says(terminals, text):
    """Waits until one of the terminals has printed this. It is not known before which node has rank 0 and prints steps."""
    def said():
        return any(text in read(terminal.path) for terminal in terminals)
    wait_until(lambda: said() or all(terminal.has_ended() for terminal in terminals), HANG)
    if not said():
        raise Failure(f"expected '{text}', found: " + "\n".join(read(terminal.path) for terminal in terminals))


class Reader:
    """The reader of the page, who types its commands. The reader has a folder of its own on each host."""

    def __init__(self, network, folder, programs, page):
        self._network = network
        self._folder = pathlib.Path(folder)
        self._programs = programs
        self._page = page
        self._terminals = []
        self.hosts = ("node1", "node2")
        names = "".join(f"{network.address(host)} {host}\n" for host in self.hosts)
        (self._folder / "hosts").write_text("127.0.0.1 localhost\n" + names)
        for host in self.hosts:
            (self.home(host) / "build").mkdir(parents=True)
            (self.home(host) / "build/bin").symlink_to(programs)
            for name in ("configs", "tests"):
                (self.home(host) / name).symlink_to(ROOT / name)
        (self.home("node1") / "train.py").write_text('print("trained")\n')
        (self.home("node1") / "train").write_text("#!/bin/sh\necho trained\n")
        (self.home("node1") / "train").chmod(0o755)

    def home(self, host):
        return self._folder / host

    def printed(self):
        return "\n".join(read(terminal.path) for terminal in self._terminals)

    def type(self, beginning, *hosts):
        """Types the next command of the page on each host. It must begin like this. Returns the terminals."""
        command = self._page.take(beginning).replace("/usr/share/ddprun/configs", "configs")
        if command.startswith("pkill"):
            command += " --ns $$ --nslist net"  # only processes of this host
        started = []
        for host in hosts:
            shell = (f"mount --bind {self._folder}/hosts /etc/hosts && cd {self.home(host)} && "
                     f"export PATH={self._programs}:$PATH && {'' if command[0] == '(' else 'exec '}{command}")
            path = self._folder / f"{len(self._terminals)}.log"
            self._terminals.append(Terminal(self._network.on(host, ["sh", "-c", shell]), path))
            started.append(self._terminals[-1])
        return started

    def run(self, beginning):
        """Types the next command on node1, where it must end with exit code 0."""
        terminal, = self.type(beginning, "node1")
        terminal.ends()
        return terminal

    def copy_token(self):
        """Copies the token from node1 to node2, as the page tells its reader."""
        shutil.copy2(self.home("node1") / "token", self.home("node2"))

    def one_says(self, terminals, text):
        one_says(terminals, text)


class Rehearsal:
    """Stands for a Reader and its terminals. It takes the commands of the page and runs nothing."""

    hosts = ("node1", "node2")

    def __init__(self, page):
        self._page = page

    def type(self, beginning, *hosts):
        self._page.take(beginning)
        return [self for _ in hosts]

    def run(self, beginning):
        return self.type(beginning, "node1")[0]

    def _nothing(self, *_):
        pass

    copy_token = one_says = says = ends = stop = _nothing


def one_node(reader):
    reader.run("ddprun -c").says("test accuracy 0.9")
    reader.run("rm")
    job, = reader.type("ddprun -c", "node1")
    job.says("[default0]:step ")
    reader.run("pkill")
    job.ends()
    job.says("restart 1 of 3; resumes at step")


def own_program(reader):
    for command in ("ddprun --nproc-per-node 2 --max-restarts 3 ./train",
                    "ddprun --nproc-per-node 2 --max-restarts 3 train.py"):
        reader.run(command).says("[default1]:trained")
    reader.run("ddprun init").says("job.yaml is written")
    reader.run("ddprun -c job.yaml").says("[default1]:trained")


def two_nodes(reader):
    rendezvous, = reader.type("ddprun rendezvous", "node1")
    rendezvous.says("listening")
    nodes = reader.type("ddprun -c", "node1") + reader.type("ddprun -c", "node1")
    reader.one_says(nodes, "[default0]:step ")
    reader.run("ddprun status").says("mnist")
    for node in nodes:
        node.ends()
    reader.one_says(nodes, "test accuracy 0.9")
    rendezvous.stop()


def two_machines(reader):
    reader.run("rm")
    reader.run("(umask")
    reader.copy_token()
    rendezvous, = reader.type("ddprun rendezvous", "node1")
    rendezvous.says("listening")
    nodes = reader.type("ddprun -c", *reader.hosts)
    reader.one_says(nodes, "[default0]:step ")
    reader.type("ip link set eth0 down", "node2")[0].ends()
    nodes[1].says("fenced: ")
    nodes[0].says("gone: node2")
    reader.type("ip link set eth0 up", "node2")[0].ends()
    for node in nodes:
        node.ends()
        node.says("resumes at step")
        node.says("succeeded after 0 restarts")
    rendezvous.stop()


SECTIONS = (one_node, own_program, two_nodes, two_machines)


def rehearse(text):
    """Says which command of the page's text this test does not run, or runs and the page lacks; "": none."""
    page = Page(text)
    try:
        page.take("apt-get update")
        page.take("apt-get install")
        for section in SECTIONS:
            section(Rehearsal(page))
        page.expect_end()
    except Failure as failure:
        return str(failure)
    return ""


def main(programs):
    if (why := why_impossible()):
        return left_out(why)
    folder = tempfile.mkdtemp(prefix="ddprun-page-")
    network = Switch(f"ddpage{os.getpid()}", ("node1", "node2"))
    guard = Guard(network.cleanup() + f"rm -rf {folder}\n")
    try:
        network.make()
        page = Page(PAGE.read_text())
        reader = Reader(network, folder, programs, page)
        page.take("apt-get update")
        page.expect_programs_in(page.take("apt-get install"))  # scripts/package_check.sh installs ours
        for section in SECTIONS:
            section(reader)
        page.expect_end()
        page.expect_output(reader.printed())
        if not wait_until(lambda: not network.pids(), LEFT_LIMIT_S):
            raise Failure(f"processes are left: {network.pids()}")
    except Failure as failure:
        print(f"first_job_test.py: {failure}", file=sys.stderr)
        return 1
    finally:
        guard.clean_up()
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else str(ROOT / "build/bin")))
