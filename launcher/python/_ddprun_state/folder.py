"""The files of a checkpoint folder: their names, how they are saved, and which old ones are removed
(worker/src/storage/checkpoint_folder.h)."""
import errno
import os
import re

from . import agent, durable_file
from .errors import CheckpointError, UnavailableError, quoted
from .safetensors import build_header, header_metadata, memory_of, read_metadata

_PREFIX = "step-"
_NAME = re.compile(r"step-(\d+)\.safetensors")
# The names of renamed damaged files (worker/src/storage/set_aside.h): step, run, number.
_SET_ASIDE = re.compile(r"step-(\d+)\.safetensors(?:\.([0-9A-Za-z]{2,}))?(?:\.([2-9]))?\.corrupt")
_SET_ASIDE_KEPT = 2


def checkpoint_name(step):
    return "%s%012d.safetensors" % (_PREFIX, step)


def list_folder(folder):
    """Returns [(step, path)] of the checkpoints, highest step first, and the paths of the renamed
    damaged files. A missing folder counts as empty. Raises UnavailableError."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return [], []
        raise UnavailableError("cannot list it: " + error.strerror, error.errno) from None
    found = [(int(match.group(1)), os.path.join(folder, match.group(0)))
             for match in map(_NAME.fullmatch, names) if match]
    aside = [os.path.join(folder, name) for name in names if _SET_ASIDE.fullmatch(name)]
    return sorted(found, key=lambda file: -file[0]), sorted(aside, reverse=True)


def set_aside_path(path, run):
    """The new name of the damaged file `path`. It contains `run`, the id of this run, if the
    file's header says that this run made it."""
    if re.fullmatch("[0-9A-Za-z]{2,}", run):
        metadata = header_metadata(path)
        if metadata is not None and metadata.get("ddprun_run") == run:
            path += "." + run
    aside, number = path + ".corrupt", 2
    while os.path.lexists(aside) and number < 10:
        aside, number = "%s.%d.corrupt" % (path, number), number + 1
    return aside


def remove_old_set_aside(folder, run):
    """Keeps the two newest of the damaged files that this run made and renamed, and removes
    older ones. Files of other runs are never removed. The caller must ensure that nobody else
    changes the folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    own = sorted((int(match.group(1)), int(match.group(3) or 1), match.group(0))
                 for match in map(_SET_ASIDE.fullmatch, names) if match and match.group(2) == run)
    for _, _, name in own[:-_SET_ASIDE_KEPT]:
        path = os.path.join(folder, name)
        try:
            os.unlink(path)
            what = "removed " + path
        except OSError as error:
            what = "cannot remove %s (%s)" % (path, error.strerror)
        agent.warn(0, what + ": of this run's damaged files the two newest are kept")


def _check_replaceable(path, lineage):
    """Raises CheckpointError unless the existing file `path` is of this run."""
    metadata = read_metadata(path)
    run = metadata.get("ddprun_run", "") if metadata else ""
    if run and run == lineage.run:
        return
    why = ("which cannot be read" if metadata is None else
           "of another run, " + quoted(run) if run else "of an older version")
    raise CheckpointError("there is a file %s already, %s; it is kept" % (path, why))


def save_checkpoint(folder, image, owner, lineage):
    """Writes a checkpoint, and returns its path when it is on disk. If it raises CheckpointError,
    files of other steps are unchanged. `image`: an Image. `owner`: a FolderOwner."""
    header = build_header(image.tensors, image.metadata)
    durable_file.remove_abandoned(folder, _PREFIX)  # first: they may take the space that it needs

    def publish(temporary, path):
        with owner.guard():
            if not durable_file.move_to_free(temporary, path):
                _check_replaceable(path, lineage)
                os.rename(temporary, path)

    name = checkpoint_name(image.step)
    durable_file.write_durably(folder, name, [header, *map(memory_of, image.values())], publish)
    return os.path.join(folder, name)


def remove_old(folder, saved_step, keep_last, keep_every, lineage):
    """Removes old files. Keeps the file of `saved_step`, the keep_last - 1 next older ones, and
    all files whose step is a multiple of keep_every. Unreadable files, and files that `lineage`
    does not allow to remove, do not count and stay."""
    kept = 1
    for step, path in list_folder(folder)[0]:
        if step >= saved_step:
            continue
        metadata = read_metadata(path)
        if (metadata is None or metadata.get("step") != str(step)
                or not lineage.may_remove(metadata)):
            continue
        kept += 1
        if kept <= keep_last or keep_every > 0 and step % keep_every == 0:
            continue
        try:
            os.unlink(path)
        except OSError as error:
            agent.warn(0, "cannot remove the old checkpoint %s: %s" % (path, error.strerror))
