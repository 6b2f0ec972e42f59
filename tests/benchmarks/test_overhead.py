import json
import subprocess
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

from benchmarks.pairs import FEWEST_PAIRS, compare, median_interval

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "overhead.py"


class TestMedianInterval:
    def test_of_ten_values_it_is_from_the_second_to_the_ninth(self):
        """By hand: 1 - 2 (1 + 10) / 1024 = 0.9785, and one further in, 1 - 2 (1 + 10 + 45) / 1024 = 0.8906."""
        assert median_interval([7, 3, 10, 1, 5, 2, 9, 4, 8, 6]) == (2, 9)
        assert median_interval(range(1, 11), level=0.89) == (3, 8)

    @pytest.mark.parametrize("count", [6, 7, 9, 20, 51, 200, 400, 3000])
    def test_it_is_the_narrowest_that_covers(self, count):
        low, high = median_interval(range(1, count + 1))
        assert low + high == count + 1
        assert 1 - 2 * binom.cdf(low - 1, count, 0.5) >= 0.95
        assert 1 - 2 * binom.cdf(low, count, 0.5) < 0.95

    def test_too_few_values_are_refused(self):
        median_interval(range(FEWEST_PAIRS))
        with pytest.raises(ValueError, match="5 values are too few"):
            median_interval(range(FEWEST_PAIRS - 1))


class TestCompare:
    def test_order_alternates_and_each_timing_is_of_a_block(self):
        calls = []
        compare(lambda: calls.append("u"), lambda: calls.append("o"), pairs=6, block=2, warm_up=2)
        assert "".join(calls) == "uuoo" + "oouu" + 3 * ("uuoo" + "oouu")

    def test_ratio_is_other_over_usual(self):
        clock = 0

        def spend(nanoseconds):
            nonlocal clock
            clock += nanoseconds

        comparison = compare(
            *(lambda: spend(2_000_000), lambda: spend(3_000_000)), pairs=8, block=5, clock=lambda: clock
        )
        assert (comparison.low, comparison.ratio, comparison.high) == (1.5, 1.5, 1.5)
        assert (comparison.usual_milliseconds, comparison.other_milliseconds) == (2, 3)


class TestScript:
    @pytest.mark.slow
    def test_it_writes_its_numbers(self, tmp_path):
        out = tmp_path / "overhead.json"
        command = [sys.executable, str(SCRIPT), "--pairs", "6", "--model", "mlp", "--out", str(out)]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        assert finished.returncode in (0, 1), finished.stderr
        record = json.loads(out.read_text())
        step, step_control, forward, forward_control, guard = record["results"]
        assert [step["limit"], forward["limit"], guard["limit"]] == [1.03, 1.01, 1.01]
        assert guard["steps_per_timing"] == 100
        assert "limit" not in step_control
        assert "limit" not in forward_control
        for result in record["results"]:
            assert result["pairs"] == 6
            assert 0 < result["low"] <= result["ratio"] <= result["high"]
            assert min(result["usual_milliseconds"], result["other_milliseconds"]) > 0
            assert result["case"] in finished.stdout
        assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
        assert record["provenance"]["threads"] == 1
        holds = all(result["low"] <= result["limit"] for result in (step, forward, guard))
        assert finished.returncode == (0 if holds else 1)
