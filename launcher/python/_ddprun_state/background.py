"""A thread that runs one action at a time while the training continues."""
from concurrent.futures import ThreadPoolExecutor


class Background:
    """One thread. The exit of the interpreter waits until all posted actions are done."""

    def __init__(self, name):
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last = None

    def post(self, action):
        """Waits until the previous action is done. Then starts `action`, which must not raise."""
        self.wait()
        self._last = self._executor.submit(action)

    def busy(self):
        return self._last is not None and not self._last.done()

    def wait(self):
        if self._last is not None:
            self._last.result()
