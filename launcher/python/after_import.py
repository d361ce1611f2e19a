# Calls a function after an unmodified script has imported a module.
#
# It imports nothing itself: it waits until the script imports the module. After an error in the
# import system it calls `give_up`, and the script continues.
import sys


class _Finder:
    """Waits for the import of the module, then removes itself."""

    def __init__(self, name, call, give_up):
        self._name = name
        self._call = call
        self._give_up = give_up

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return None  # another thread was faster
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                try:
                    _hook_after(spec.loader, self._call)
                except Exception as error:
                    self._give_up(error)
                return spec
        return None


def _hook_after(loader, call):
    execute = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        execute(module)
        call(module)

    loader.exec_module = exec_module


def after_import(name, call, give_up):
    """Calls `call(module)` after the import of the module `name`; at once if it is imported
    already. `call` must not raise."""
    if name in sys.modules:
        call(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, call, give_up))
