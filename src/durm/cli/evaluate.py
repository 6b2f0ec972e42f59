"""`durm evaluate`: the metrics of a saved model, what attacks leave of its accuracy, and what it sees in images."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from durm._text import pluralize
from durm.cli import options
from durm.cli.fields import ATTACKS, with_fields
from durm.errors import InputError

_attacks, _masks = (partial(typer.Option, rich_help_panel=panel) for panel in (ATTACKS, "Images with masks"))


EXAMPLES = """
durm evaluate runs/train
durm evaluate checkpoint.pt --attack pgd,apgd --eps 4/255,8/255 --through real,full
durm evaluate checkpoint.pt --attack auto --resume attacked.pt
"""


@with_fields(settings="AttackSpec", only=("norm", "steps", "restarts", "loss", "through"))
def evaluate(
    settings: dict[str, Any],
    checkpoint: options.Checkpoint,
    data: Annotated[
        str | None, typer.Option(help="Evaluate on other data than it was trained on: its test part.")
    ] = None,
    data_root: options.DataRoot = None,
    open_set: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Data of the same shape, all of no known class: how well scores of uncertainty tell them apart.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        _masks(help="Write the class of every pixel as PNGs into this folder, as benchmark servers want them."),
    ] = None,
    images: Annotated[
        Path | None, _masks(help="Of the images in this folder and below, at full resolution, instead of the test set.")
    ] = None,
    attack: Annotated[
        str | None, _attacks(help="fgsm, pgd, apgd, square or auto; several with commas.", metavar="NAME,…")
    ] = None,
    eps: Annotated[str, _attacks(help="The radius, for inputs in [0, 1]; several with commas.")] = "8/255",
    samples: Annotated[int, _attacks(help="Test samples to attack.")] = 1000,
    transfer_from: Annotated[
        Path | None, _attacks(help="Another checkpoint, whose attacked inputs are shown to this model.")
    ] = None,
    resume: Annotated[
        Path | None,
        _attacks(help="Keep the attacked batches in this file; an interrupted run resumes from it.", metavar="FILE"),
    ] = None,
    trust_code: options.TrustCode = False,
    json: options.Json = False,
) -> None:
    """Evaluate a saved model on the test set: accuracy, real-class NLL, calibration, dummy mass and hits.

    For segmentation models also IoU, confusions and dummy hits by class. With --attack: the accuracy under attack,
    through the logits of --through. With --open-set: how well dummy mass, maximum probability, maximum logit, energy
    and entropy detect unknown classes. With --predictions: images of classes instead of numbers.
    """
    for flag, given in (("--predictions", predictions), ("--attack", attack)):
        if open_set is not None and given is not None:
            raise InputError(f"--open-set {open_set} and {flag} {given} exclude each other")
    if images is not None and predictions is None:
        raise InputError(f"--images {images} goes with --predictions")
    if predictions is not None and attack is not None:
        raise InputError(f"--predictions {predictions} and --attack {attack} exclude each other")
    if images is not None and data is not None:
        raise InputError(f"--images {images} and --data {data} exclude each other")
    if transfer_from is not None and attack is None:
        raise InputError(f"--transfer-from {transfer_from} goes with --attack")
    if resume is not None and attack is None:
        raise InputError(f"--resume {resume} goes with --attack")
    path = options.checkpoint_file(checkpoint)
    where = {"path": path, "data": data, "data_root": data_root, "trust_code": trust_code}
    if predictions is not None:
        _predict(where, predictions, images, json=json)
    elif open_set is not None:
        _open_set(where, open_set, json=json)
    elif attack is None:
        _score(where, json=json)
    else:
        if samples < 1:
            raise InputError(f"--samples {samples}: expected at least 1")
        radii = [radius.strip() for radius in eps.split(",")]
        attacks = [
            {"kind": kind.strip(), "eps": radius, **settings, **({"name": f"{kind.strip()}-{i}"} if radii[1:] else {})}
            for kind in attack.split(",")
            for i, radius in enumerate(radii, 1)
        ]
        _attack(where, attacks, samples, transfer_from, resume, json=json)


def _score(where: dict[str, Any], *, json: bool) -> None:
    """Prints the metrics; those of single classes stand in a table of their own."""
    from durm.report.tables import scene_table
    from durm.report.terminal import print_rows, print_table
    from durm.training.inference import score_checkpoint

    scores, bundle = score_checkpoint(**where)
    classes = {"class_names": bundle.class_names, "classes": scores.classes, "confusion": scores.confusion}
    if json:
        options.print_json({**scores.metrics, **(classes if scores.confusion else {})})
        return
    single = ("iou_", "acc_") if scores.confusion else ()
    rows = [[name, f"{value:.3f}"] for name, value in scores.metrics.items() if not name.startswith(single)]
    print_rows(["metric", "test"], rows)
    if scores.confusion:
        options.say("")
        print_table(scene_table(bundle.class_names, scores.classes, scores.confusion))


def _attack(
    where: dict[str, Any],
    attacks: list[dict[str, Any]],
    samples: int,
    transfer_from: Path | None,
    resume: Path | None,
    *,
    json: bool,
) -> None:
    from durm.cli.flags import attack_from_flags
    from durm.metrics.robust import attack_and_surface
    from durm.report.terminal import print_rows
    from durm.study.robustness import signs_of_masking
    from durm.training.inference import attack_checkpoint

    specs = [attack_from_flags(values) for values in attacks]
    other = transfer_from and options.checkpoint_file(transfer_from)
    found = attack_checkpoint(attacks=specs, samples=samples, transfer_from=other, resume=resume, **where)
    left = {key: entry.accuracy for key, entry in found.robustness.items()}
    carried = {"from_baseline": min(found.transfer.values())} if found.transfer else {}
    warnings = signs_of_masking(specs, left, carried)
    warnings += [text for entry in found.robustness.values() for text in entry.warnings]
    if json:
        options.print_json({**found.model_dump(mode="json"), "warnings": warnings})
        return
    rows = [
        [*attack_and_surface(key), _radius(entry.eps), f"{entry.accuracy:.2f}", f"{entry.into_dummies:.2f}"]
        for key, entry in found.robustness.items()
    ]
    rows += [["transfer of " + name, "real", "", f"{value:.2f}", ""] for name, value in found.transfer.items()]
    print_rows(["attack", "through", "eps", "accuracy %", "into dummies %"], rows)
    for warning in warnings:
        options.say(f"Note: {warning}")


def _open_set(where: dict[str, Any], name: str, *, json: bool) -> None:
    from durm.report.terminal import print_rows
    from durm.training.open_set import open_set_checkpoint

    found = open_set_checkpoint(open_set=name, **where)
    if json:
        options.print_json(found.model_dump(mode="json"))
        return
    rows = [
        [score, *(f"{value:.2f}" for value in (one.auroc, one.fpr95, one.aurc, one.risk[90], one.risk[70]))]
        for score, one in found.scores.items()
    ]
    print_rows(["score", "AUROC %", "FPR95 %", "AURC %", "error % at 90 %", "at 70 % coverage"], rows)
    known, unknown = pluralize(found.known, "known sample"), pluralize(found.unknown, "sample")
    options.say(f"{known}, {found.wrong:,} of them classified wrongly; {unknown} of no known class. One model.")
    for note in found.notes:
        options.say(f"Note: {note}")


def _predict(where: dict[str, Any], folder: Path, images: Path | None, *, json: bool) -> None:
    from durm.cli.flags import options_as_flags
    from durm.report.progress import progress_bar
    from durm.training.inference import predict_checkpoint

    if folder.is_file():
        raise InputError(f"--predictions {folder} is a file; expected a folder")
    with progress_bar("{task.description}", disable=json or not sys.stderr.isatty()) as bar:
        follow = partial(bar.track, description="images")
        written, note = predict_checkpoint(folder=folder, images=images, follow=follow, **where)
    if json:
        options.print_json({"predictions": [str(file) for file in written], "notes": [note] if note else []})
        return
    options.say(f"{pluralize(len(written), 'prediction')} in {folder}, such as {written[0].name}")
    if note:
        options.say(f"Note: {options_as_flags(note)}.")


def _radius(eps: float | None) -> str:
    return "" if eps is None else f"{eps * 255:.4g}/255" if eps < 1 else f"{eps:g}"
