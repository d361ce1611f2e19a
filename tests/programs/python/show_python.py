"""Prints as JSON the module path and the modules of the interpreter and of a child process."""
import json
import os
import subprocess
import sys

COMMAND = ("import json, os, sys; print(json.dumps([os.environ.get('PYTHONPATH'), sys.path, "
           "'ddprun' in str(sys.modules.get('sitecustomize'))]))")


def main():
    child = subprocess.run([sys.executable, "-c", COMMAND], check=True, stdout=subprocess.PIPE)
    customized = sys.modules.get("sitecustomize")
    try:
        import ddprun
        module = ddprun.__file__
    except ImportError:
        module = None
    print(json.dumps({
        "environment": os.environ.get("PYTHONPATH"),
        "path": sys.path,
        "caches": sorted(entry for entry in sys.path_importer_cache if "/python/site" in entry),
        "sitecustomize": getattr(customized, "__file__", None),
        "hooks": [str(finder) for finder in sys.meta_path if "ddprun" in str(finder)],
        "module": module,
        "child": json.loads(child.stdout.splitlines()[-1]),
    }))


if __name__ == "__main__":
    main()
