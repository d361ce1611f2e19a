"""`ddprun slurm`: Slurm and bash accept its script."""
import os
import re
import shutil
import subprocess

from slurm_cluster import ROOT, check, read


def _submit(cluster, name, *options):
    output = cluster.slurm(cluster.ddprun(), "slurm", name, "--", "--parsable", *options)
    return cluster.job(output.strip())


def hostile_words(cluster):
    """Shell-special characters in names, paths and arguments arrive as they were written. Only the owner can
    read the token."""
    shutil.copy(os.path.join(ROOT, "tests/data/slurm/hostile.yaml"), cluster.path("it's a job.yaml"))
    with open(cluster.path("to ken's"), "w", encoding="utf-8") as file:
        file.write("0123456789abcdef0123456789abcdef\n")
    os.chmod(cluster.path("to ken's"), 0o600)
    job = _submit(cluster, "it's a job.yaml")
    shown = cluster.slurm("squeue", "-h", "-j", job.id, "-o", "%j", "--states=all").rstrip("\n")
    check(shown == "it's a \"job\" $HOME `id` \\ #1; & | > * ümlaut", shown)
    check("two words # and 'a quote'" in cluster.slurm("scontrol", "show", "job", job.id), "comment")
    job.expect_end("COMPLETED", "0:0")
    logs = cluster.path("out dir/it's $HOME `id` #1 %j\"")
    folder = next(os.path.join(logs, name) for name in os.listdir(logs) if name.startswith("slurm-"))
    said = read(os.path.join(folder, f"{job.id}.out"))
    arguments = "<a \"b\" $HOME `id` \\ !><c;d&e|f>g<h><*?[x]><><# i><ümlaut>"
    check(said.count(arguments) == 2, said)
    check(os.stat(os.path.join(folder, "token")).st_mode & 0o777 == 0o600, "mode of the token")
    check(os.stat(folder).st_mode & 0o777 == 0o700, "mode of the folder")
    cluster.expect_nothing_left()


def dry_run(cluster):
    """Prints the script, what runs on every node and the workers' environment; submits nothing."""
    path = os.path.join(ROOT, "tests/data/slurm/plain.yaml")
    said = cluster.slurm(cluster.ddprun(), "slurm", "--dry-run", path)
    for line in ("#SBATCH --nodes=4\n", "#SBATCH --gpus-per-node=8\n", "\nsrun --wait=0 ",
                 "RANK=31 LOCAL_RANK=7 GROUP_RANK=3 WORLD_SIZE=32 "):
        check(line in said, f"no {line!r} in:\n{said}")
    check(not re.search(r"\d", cluster.slurm("squeue", "-h")), "a job was submitted")
    check(not os.path.exists(cluster.path("logs")), "a folder was made")
    said = cluster.slurm(cluster.ddprun(), "slurm", "--dry-run", path, "--", "--nodes=7")
    check(re.search(r"\nsbatch --nodes=7 \S+/job\.sbatch\n", said), said)
    # A line break in a name must not make two lines of the script.
    os.mkdir(cluster.path("a\ntouch b"))
    done = subprocess.run([cluster.ddprun(), "slurm", "--dry-run", path], text=True, capture_output=True,
                          cwd=cluster.path("a\ntouch b"), check=False)
    check(done.returncode == 65 and "control characters" in done.stderr, done)


def mistakes(cluster):
    """`ddprun slurm` reports mistakes in the job file that the nodes would find later. It submits nothing."""
    wrong = {"rendezvous: {lease: 1s}": "the lease must be at least three heartbeats",
             "rendezvous: {token_file: none}": "cannot read none: No such file or directory",
             "slurm: {time: '2', warning: 2min}": "slurm.time: expected more than the 2min of slurm.warning",
             "slurm: {time: 1h}": "slurm.time: expected minutes, MM:SS",
             "report: r.json": "report: the script has a report of its own",
             "restart: {warm: 1}": "needs --preload"}
    for text, why in wrong.items():
        with open(cluster.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write(f"command: [train.py]\n{text}\n")
        for options in ([], ["--dry-run"]):
            done = subprocess.run([cluster.ddprun(), "slurm", "job.yaml", *options], cwd=cluster.work,
                                  env=cluster.environment, text=True, capture_output=True, check=False)
            check(done.returncode == 65 and why in done.stderr, f"{text}: {done}")
    check(not re.search(r"\d", cluster.slurm("squeue", "-h")), "a job was submitted")
    check(not os.path.exists(cluster.path("logs")), "a folder was made")
