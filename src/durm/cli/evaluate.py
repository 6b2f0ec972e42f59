"""`durm evaluate`: the metrics of a saved model, and what attacks leave of its accuracy."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError

_ATTACK = "Attacks"


def evaluate(
    checkpoint: Annotated[
        Path, typer.Argument(help="A checkpoint.pt, or the folder of a trial that holds one.", show_default=False)
    ],
    data: Annotated[
        str | None, typer.Option(help="Evaluate on other data than it was trained on: its test part.")
    ] = None,
    data_root: options.DataRoot = None,
    attack: Annotated[
        str | None,
        typer.Option(help="fgsm, pgd, apgd, square or auto; several with commas.", rich_help_panel=_ATTACK),
    ] = None,
    eps: Annotated[
        str, typer.Option(help="The radius, for inputs in [0, 1]; several with commas.", rich_help_panel=_ATTACK)
    ] = "8/255",
    norm: Annotated[str, typer.Option(help="linf or l2.", rich_help_panel=_ATTACK)] = "linf",
    steps: Annotated[
        int | None,
        typer.Option(
            help="Steps of pgd (10) and apgd (100), queries of square (5,000).",
            rich_help_panel=_ATTACK,
            show_default=False,
        ),
    ] = None,
    restarts: Annotated[int, typer.Option(help="Random starts.", rich_help_panel=_ATTACK)] = 1,
    loss: Annotated[
        str | None,
        typer.Option(help="ce, cw or dlr; square has cw, the others ce.", rich_help_panel=_ATTACK, show_default=False),
    ] = None,
    through: Annotated[
        str,
        typer.Option(
            help="The logits to attack: real, full (with the dummies), dummy (into one); several with commas.",
            rich_help_panel=_ATTACK,
        ),
    ] = "real",
    samples: Annotated[int, typer.Option(help="Test samples to attack.", rich_help_panel=_ATTACK)] = 1000,
    transfer_from: Annotated[
        Path | None,
        typer.Option(
            help="Another checkpoint, whose attacked inputs are shown to this model.", rich_help_panel=_ATTACK
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Evaluate a saved model on the test set: accuracy, real-class NLL, calibration, dummy mass and hits.

    With --attack: the accuracy that attacks leave, through each surface.
    """
    from durm.cli.display import print_json, print_table
    from durm.training.saved import evaluate_checkpoint

    path = _file(checkpoint)
    if attack is None:
        if transfer_from is not None:
            raise InputError(f"--transfer-from {transfer_from} goes with --attack")
        metrics = evaluate_checkpoint(path, data=data, data_root=data_root)
        if json:
            print_json(metrics)
        else:
            print_table(["metric", "test"], [[name, f"{value:.3f}"] for name, value in metrics.items()])
        return 0

    from durm.report.words import attack_and_surface
    from durm.study.robustness import signs_of_masking
    from durm.study.spec import make_attack
    from durm.training.saved import attack_checkpoint

    if samples < 1:
        raise InputError(f"--samples {samples}: expected at least 1")
    radii = [radius.strip() for radius in eps.split(",")]
    values = {"norm": norm, "steps": steps, "restarts": restarts, "loss": loss, "through": _parts(through)}
    attacks = [
        make_attack({"kind": kind, "eps": radius, **values, **({"name": f"{kind}-{index}"} if len(radii) > 1 else {})})
        for kind in _parts(attack)
        for index, radius in enumerate(radii, 1)
    ]
    found = attack_checkpoint(
        path,
        attacks,
        samples=samples,
        transfer_from=transfer_from and _file(transfer_from),
        data=data,
        data_root=data_root,
    )
    left = {key: entry["accuracy"] for key, entry in found["robustness"].items()}
    carried = {"from_baseline": min(found["transfer"].values())} if found["transfer"] else {}
    warnings = signs_of_masking(attacks, left, carried)
    if json:
        print_json({**found, "warnings": warnings})
        return 0
    rows = [
        [
            *attack_and_surface(key),
            _radius(entry.get("eps")),
            f"{entry['accuracy']:.2f}",
            f"{entry['into_dummies']:.2f}",
        ]
        for key, entry in found["robustness"].items()
    ]
    rows += [["transfer of " + name, "real", "", f"{value:.2f}", ""] for name, value in found["transfer"].items()]
    print_table(["attack", "through", "eps", "accuracy %", "into dummies %"], rows)
    for warning in warnings:
        typer.echo(f"Note: {warning}")
    return 0


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _radius(eps: float | None) -> str:
    if eps is None:
        return ""
    return f"{eps * 255:.4g}/255" if eps < 1 else f"{eps:g}"


def _file(path: Path) -> Path:
    return path / "checkpoint.pt" if path.is_dir() else path
