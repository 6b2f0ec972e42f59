"""`durm evaluate`: the metrics of a saved model, what attacks leave of its accuracy, and what it sees in images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from durm._words import counted
from durm.cli import options
from durm.errors import InputError

if TYPE_CHECKING:
    from durm.training.tasks import Scores

_ATTACK, _SCENES = "Attacks", "Images with masks"


def evaluate(
    checkpoint: Annotated[
        Path, typer.Argument(help="A checkpoint.pt, or the folder of a trial that holds one.", show_default=False)
    ],
    data: Annotated[
        str | None, typer.Option(help="Evaluate on other data than it was trained on: its test part.")
    ] = None,
    data_root: options.DataRoot = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write the class of every pixel as PNGs into this folder, as benchmark servers want them.",
            rich_help_panel=_SCENES,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Of the images in this folder and below, at full resolution, instead of the test set.",
            rich_help_panel=_SCENES,
        ),
    ] = None,
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

    Of segmentation models also IoU, confusions and dummy hits by class. With --attack: the accuracy that attacks
    leave, through each surface. With --predictions: images of classes instead of numbers.
    """
    from durm.cli.display import print_json, print_table

    path = _file(checkpoint)
    if images is not None and predictions is None:
        raise InputError(f"--images {images} goes with --predictions")
    if predictions is not None and attack is not None:
        raise InputError(f"--predictions {predictions} and --attack {attack} exclude each other")
    if images is not None and data is not None:
        raise InputError(f"--images {images} and --data {data} exclude each other")
    if predictions is not None:
        if predictions.is_file():
            raise InputError(f"--predictions {predictions} is a file; expected a folder")
        return _predict(path, predictions, images, data, data_root, json=json)
    if attack is None:
        if transfer_from is not None:
            raise InputError(f"--transfer-from {transfer_from} goes with --attack")
        from durm.training.saved import score_checkpoint

        scores, bundle = score_checkpoint(path, data=data, data_root=data_root)
        if json:
            print_json(_as_json(scores, bundle.class_names))
        else:
            _print_scores(scores, bundle.class_names)
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


def _predict(
    path: Path, folder: Path, images: Path | None, data: str | None, data_root: Path | None, *, json: bool
) -> int:
    from rich.console import Console
    from rich.progress import track

    from durm.cli.display import print_json
    from durm.training.saved import predict_checkpoint

    console = Console(stderr=True)
    written, note = predict_checkpoint(
        path,
        folder,
        images=images,
        data=data,
        data_root=data_root,
        follow=lambda numbers: track(numbers, "images", console=console, disable=json or not console.is_terminal),
    )
    if json:
        print_json({"predictions": [str(file) for file in written], "notes": [note] if note else []})
        return 0
    typer.echo(f"{counted(len(written), 'prediction')} in {folder}, such as {written[0].name}")
    if note:
        typer.echo(f"Note: {note}.")
    return 0


def _print_scores(scores: "Scores", class_names: list[str]) -> None:
    """The metrics; those of single classes stand in a table of their own."""
    from durm.cli.display import print_table
    from durm.report.tables import scene_table

    single = ("iou_", "acc_") if scores.confusion else ()
    rows = [[name, f"{value:.3f}"] for name, value in scores.metrics.items() if not name.startswith(single)]
    print_table(["metric", "test"], rows)
    if scores.confusion:
        table = scene_table(class_names, scores.classes, scores.confusion)
        typer.echo("")
        print_table(table.headings, table.texts())


def _as_json(scores: "Scores", class_names: list[str]) -> dict[str, Any]:
    if not scores.confusion:
        return scores.metrics
    return {**scores.metrics, "class_names": class_names, "classes": scores.classes, "confusion": scores.confusion}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _radius(eps: float | None) -> str:
    if eps is None:
        return ""
    return f"{eps * 255:.4g}/255" if eps < 1 else f"{eps:g}"


def _file(path: Path) -> Path:
    return path / "checkpoint.pt" if path.is_dir() else path
