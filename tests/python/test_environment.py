"""The environment that torchrun documents, one case for each behaviour. One node has two workers, which are restarted
once. Each launcher runs once, and every case looks at the variables that the launcher gave its workers."""

import pathlib
import socket
import unittest

import launchers

RANKS = (0, 1)
ATTEMPTS = (0, 1)


class EnvironmentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = unittest.TestCase()
        cls.addClassCleanup(test.doCleanups)
        cls.under = launchers.both(
            test, "write_environment.py", nproc=2,
            flags=["--max_restarts", "3", "--rdzv_id", "job7", "--role", "trainer"],
            arguments=["fail-once", "--gpu=${local_rank}", "${local_rank}-of-${local_rank}"],
            environment={"MINE": "inherited"})

    def given(self, launcher, rank, attempt=1):
        result = self.under[launcher]
        self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
        return result.files[f"rank{rank}-attempt{attempt}.json"]

    def check(self, name, of_rank):
        """`of_rank`: from (rank, attempt) to the value that both launchers must give."""
        for launcher in self.under:
            for rank in RANKS:
                for attempt in ATTEMPTS:
                    self.assertEqual(
                        self.given(launcher, rank, attempt)["environment"].get(name),
                        of_rank(rank, attempt), f"{name} of rank {rank} under {launcher}")

    def test_local_rank(self):
        self.check("LOCAL_RANK", lambda rank, _: str(rank))

    def test_rank(self):
        self.check("RANK", lambda rank, _: str(rank))

    def test_group_rank_is_the_nodes(self):
        self.check("GROUP_RANK", lambda *_: "0")

    def test_role_rank(self):
        self.check("ROLE_RANK", lambda rank, _: str(rank))

    def test_role_name(self):
        self.check("ROLE_NAME", lambda *_: "trainer")

    def test_local_world_size(self):
        self.check("LOCAL_WORLD_SIZE", lambda *_: "2")

    def test_world_size(self):
        self.check("WORLD_SIZE", lambda *_: "2")

    def test_group_world_size(self):
        self.check("GROUP_WORLD_SIZE", lambda *_: "1")

    def test_role_world_size(self):
        self.check("ROLE_WORLD_SIZE", lambda *_: "2")

    def test_restart_count_after_a_restart(self):
        self.check("TORCHELASTIC_RESTART_COUNT", lambda _, attempt: str(attempt))

    def test_max_restarts(self):
        self.check("TORCHELASTIC_MAX_RESTARTS", lambda *_: "3")

    def test_run_id(self):
        self.check("TORCHELASTIC_RUN_ID", lambda *_: "job7")

    def test_the_agent_makes_the_store_where_torchruns_rank_0_does(self):
        for launcher, value in (("ddprun", "True"), ("torchrun", "False")):
            for rank in RANKS:
                environment = self.given(launcher, rank)["environment"]
                self.assertEqual(environment["TORCHELASTIC_USE_AGENT_STORE"], value, launcher)

    def test_one_thread_where_a_node_has_several_workers(self):
        self.check("OMP_NUM_THREADS", lambda *_: "1")

    def test_other_variables_are_inherited(self):
        self.check("MINE", lambda *_: "inherited")

    def test_master_is_the_same_for_all_and_can_be_bound(self):
        for launcher in self.under:
            for attempt in ATTEMPTS:
                masters = {(self.given(launcher, rank, attempt)["environment"]["MASTER_ADDR"],
                            self.given(launcher, rank, attempt)["environment"]["MASTER_PORT"])
                           for rank in RANKS}
                self.assertEqual(len(masters), 1, launcher)
                address, port = masters.pop()
                with socket.socket() as store:
                    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    store.bind((socket.gethostbyname(address), int(port)))

    def test_error_file_is_in_the_folder_of_the_attempt_and_the_local_rank(self):
        for launcher, result in self.under.items():
            for rank in RANKS:
                for attempt in ATTEMPTS:
                    given = self.given(launcher, rank, attempt)["environment"]
                    path = pathlib.Path(given["TORCHELASTIC_ERROR_FILE"])
                    self.assertEqual(path.parts[-3:], (f"attempt_{attempt}", str(rank), "error.json"))
                    self.assertTrue(path.is_relative_to(result.logs), path)
                    self.assertTrue(path.parts[-4].startswith("job7_"), path)

    def test_nccl_errors_are_handled(self):
        # torchrun sets one of the two names, which depends on its version.
        names = {"NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}
        for launcher, least in (("ddprun", 2), ("torchrun", 1)):
            for rank in RANKS:
                environment = self.given(launcher, rank)["environment"]
                self.assertGreaterEqual(len(names & environment.keys()), least, launcher)
                self.assertEqual({environment.get(name, "1") for name in names}, {"1"}, launcher)

    def test_local_rank_in_arguments(self):
        for launcher in self.under:
            for rank in RANKS:
                self.assertEqual(self.given(launcher, rank)["arguments"],
                                 ["fail-once", f"--gpu={rank}", f"{rank}-of-{rank}"])

    def test_python_runs_unbuffered(self):
        for launcher in self.under:
            self.assertTrue(self.given(launcher, 0)["unbuffered"], launcher)


class StaticBackendTest(unittest.TestCase):
    def test_the_endpoint_is_the_master_also_beside_a_master_port(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        under = launchers.both(
            self, "write_environment.py", nproc=1,
            flags=["--rdzv_backend", "static", "--rdzv_endpoint", f"127.0.0.1:{port}",
                   "--master_port", "1"])
        for launcher, result in under.items():
            self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
            given = result.files["rank0-attempt0.json"]["environment"]
            self.assertEqual((given["MASTER_ADDR"], given["MASTER_PORT"]), ("127.0.0.1", port),
                             launcher)


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = unittest.TestCase()
        cls.addClassCleanup(test.doCleanups)
        wrapper = launchers.PROGRAMS / "python_wrapper.sh"
        cls.under = launchers.both(
            test, "write_environment", nproc=1, flags=["-m"],
            environment={"PYTHON_EXEC": str(wrapper), "OMP_NUM_THREADS": "3",
                         "PYTHONPATH": str(launchers.PROGRAMS)})

    def given(self, launcher):
        result = self.under[launcher]
        self.assertEqual(result.code, 0, f"{launcher}: {result.err}")
        return result.files["rank0-attempt0.json"]

    def test_a_module_runs_as_main(self):
        for launcher in self.under:
            self.assertEqual(self.given(launcher)["name"], "__main__")
            self.assertEqual(self.given(launcher)["arguments"], [])

    def test_python_exec_is_the_interpreter(self):
        for launcher in self.under:
            self.assertEqual(self.given(launcher)["environment"].get("WRAPPED"), "1", launcher)

    def test_the_users_number_of_threads_stays(self):
        for launcher in self.under:
            self.assertEqual(self.given(launcher)["environment"]["OMP_NUM_THREADS"], "3")


if __name__ == "__main__":
    unittest.main()
