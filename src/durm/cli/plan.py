"""`durm plan`: how many pairs a study needs, from a pilot or from a spread."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError

SIZES = "6,10,16,25,40,63,100"


EXAMPLES = """
durm plan runs/digits --difference 0.3
durm plan --spread 0.3 --difference 0.3 --arms 2
"""


def plan(
    pilot: Annotated[
        Path | None,
        typer.Argument(
            help="The folder of a study, its summary.json, or a CSV file with arm, seed, value.", show_default=False
        ),
    ] = None,
    spread: Annotated[
        float | None, typer.Option(help="Without a pilot: the standard deviation of the paired differences.")
    ] = None,
    rope: Annotated[
        float | None, typer.Option(help="The equivalence margin; default: the pilot's, or 0.1.", show_default=False)
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="A true difference that the study should call better.", show_default=False)
    ] = None,
    arms: Annotated[
        int | None, typer.Option(help="Arms that are compared with the baseline; default: the pilot's, or 1.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Numbers of pairs, with commas.", show_default=True)] = SIZES,
    metric: Annotated[str, typer.Option(help="What the values of a CSV file are.")] = "value",
    json: options.Json = False,
) -> None:
    """Plan a study: the smallest difference that n pairs decide, the pairs for a half-width of rope, the power.

    The chance of "equal" is for a study without any difference; with a pilot, "assurance" averages the chance over the
    uncertainty of the pilot's standard deviation.
    """
    import math
    from dataclasses import asdict

    from durm.cli.flags import whole_numbers
    from durm.report.terminal import print_rows
    from durm.report.text import plain
    from durm.statistics.planning import plan_sizes
    from durm.study.pilot import Pilot, read_pilots

    if (pilot is None) == (spread is None):
        raise InputError(
            "give either a pilot study (a folder or a CSV file) or --spread, the spread of the differences"
        )
    if spread is not None and not 0 < spread < math.inf:
        raise InputError(f"--spread {spread:g}: expected a number above 0")
    if rope is not None and not 0 <= rope < math.inf:
        raise InputError(f"--rope {rope:g}: expected a number of at least 0")
    if arms is not None and arms < 1:
        raise InputError(f"--arms {arms}: expected at least 1")
    sizes = whole_numbers(seeds, "--seeds")
    if min(sizes) < 2:
        raise InputError(f"--seeds {seeds}: expected numbers of at least 2")
    if pilot is not None:
        found = read_pilots(pilot, metric, rope)
    else:
        assert spread is not None
        found = [Pilot("given spread", 0, spread, 0.0, 0.1 if rope is None else rope, arms or 1)]
    for one in found:
        if difference is not None and not one.rope < abs(difference) < math.inf:
            raise InputError(f"--difference {difference:g}: expected more than the equivalence margin of ±{one.rope:g}")
    planned = {
        one.name: plan_sizes(
            sizes,
            one.spread,
            one.rope,
            arms=arms or one.arms,
            difference=None if difference is None else abs(difference),
            pilot=one.n or None,
            added=one.added,
        )
        for one in found
    }
    if json:
        pilots = [{**asdict(one), "sizes": [asdict(size) for size in planned[one.name]]} for one in found]
        options.print_json({"pilots": pilots, "difference": difference})
        return
    for one in found:
        options.say(one.describe(arms))
        headings = ["pairs", "half-width", "smallest difference", "chance of equal"]
        headings += [f"chance of better at {abs(difference):g}"] if difference is not None else []
        headings += ["assurance"] if one.n else []
        rows = []
        for size in planned[one.name]:
            row = [str(size.n), plain(size.half_width, 3), plain(size.min_difference, 3), f"{100 * size.equal:.0f} %"]
            row += [f"{100 * size.better:.0f} %"] if size.better is not None else []
            row += [f"{100 * size.assurance:.0f} %"] if size.assurance is not None else []
            rows.append(row)
        print_rows(headings, rows)
        options.say("")
