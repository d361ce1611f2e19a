"""ddprun.Checkpointer on several ranks: what they agree on, and how all of them get a state.
There is no launcher; the test sets the variables of the restore plan."""

import tempfile
import unittest

import launchers


class RanksTest(unittest.TestCase):
    def run_ranks(self, scenario, nproc=2, *more):
        result = launchers.run(self, "none", "checkpoint_ranks.py", nproc=nproc,
                               arguments=[scenario, *more])
        self.assertEqual(result.code, 0, result.err)
        self.said = result.err
        return [result.files[f"rank{rank}.json"] for rank in range(nproc)]

    def test_rank_0_saves_and_all_ranks_get_its_state(self):
        ranks = self.run_ranks("saved_and_loaded")
        name = "step-000000000003.safetensors"
        self.assertEqual([rank["files"] for rank in ranks], [[name], []])
        for rank in ranks:
            self.assertEqual((rank["path"], rank["saved"], rank["step"]), (name, 1, 3))
            self.assertTrue(rank["generator"])
            self.assertTrue(rank["same"], "what follows is not what it would have been")
        self.assertEqual(ranks[0]["digest"][0], ranks[1]["digest"][0])
        self.assertNotEqual(ranks[0]["digest"][1], ranks[1]["digest"][1])

    def test_each_node_has_the_same_snapshots(self):
        """Break: leave rank 0's buffers out."""
        ranks = self.run_ranks("snapshots")
        self.assertEqual(len(ranks[0]), 2)
        self.assertEqual(ranks[0], ranks[1])

    def test_the_state_comes_from_the_node_that_the_plan_names(self):
        ranks = self.run_ranks("follows_the_plan")
        for rank in ranks:
            self.assertEqual(rank["step"], rank["planned"])
            self.assertEqual(len(rank["names"]), 2, "snapshots go on everywhere")
        self.assertEqual(ranks[0]["digest"][0], ranks[1]["digest"][0])

    def test_what_one_rank_is_asked_for_is_done_by_all_at_the_same_step(self):
        ranks = self.run_ranks("asked_to_save")
        self.assertEqual([rank["files"] for rank in ranks],
                         [["step-000000000004.safetensors"], []])

    def test_no_rank_begins_anew_where_one_cannot_read_its_folder(self):
        for rank in self.run_ranks("cannot_read"):
            self.assertEqual(rank.get("rank"), 1)
            self.assertIn("rank 1: ", rank["error"])
            self.assertIn("It may hold the newest state", rank["error"])

    def test_no_rank_begins_anew_beside_damaged_files_of_another_node(self):
        """Break: only list the folders of the other nodes."""
        for rank in self.run_ranks("damaged_elsewhere"):
            self.assertRegex(rank["error"], "none of them can be loaded; rank 1: .*"
                             "step-000000000004.safetensors: it is damaged: it is too short")
            self.assertEqual(rank["files"], ["step-000000000004.safetensors"], "it stays as it is")

    def test_an_epoch_goes_on_with_another_number_of_ranks(self):
        with tempfile.TemporaryDirectory(prefix="ddprun-python-") as folder:
            first = self.run_ranks("elsewhere", 3, folder)
            second = self.run_ranks("elsewhere", 2, folder)
        used = [sample for rank in first + second for batch in rank["samples"] for sample in batch]
        self.assertEqual([rank["step"] for rank in second], [2, 2])
        self.assertEqual(sorted(used), list(range(30)))


if __name__ == "__main__":
    unittest.main()
