"""The flow charts of the documentation: steps from left to right, each a title and what happens there."""

from html import escape

WIDTH, HEIGHT, GAP = 680, 76, 22
FLOWS: dict[str, list[list[str]]] = {
    "cluster": [
        ["durm run", "hands out trials"],
        ["Ray", "a task a trial"],
        ["nodes", "no shared disk needed", "a lost one costs its trials"],
        ["runs/STUDY", "written by the driver", "verdict and report"],
    ],
    "command-line": [
        ["durm compare", "runs and resumes"],
        ["runs/STUDY", "keeps every trial"],
        ["durm report", "headline, table", "report.html"],
        ["--json", "the same", "for a program"],
    ],
    "commands": [
        ["arms × seeds", "base, smooth", "seeds 0 … 9"],
        ["your program", "train.py --seed 3", "--smoothing 0.1"],
        ["metrics.json", "or the last line", "that it prints"],
        ["verdict", "better, worse,", "equal, undecided"],
    ],
    "custom-heads": [
        ["features"],
        ["the head", "C + C_d classes that", "see each other"],
        ["training", "C + C_d logits"],
        ["eval mode", "the first C of them"],
    ],
    "deploy": [
        ["widened model", "C + C_d rows"],
        ["durm.narrow", "C rows", "the same keys"],
        ["durm.export", "checked against", "the model"],
        ["a file", "ONNX, torch.export", "or safetensors"],
    ],
    "huggingface": [
        ["durm.widen", "num_labels + 2 logits"],
        ["DuRMTrainer", "smooths over the", "real labels"],
        ["checkpoints", "resume as widened"],
        ["save_model", "the C-class model", "loads without durm"],
    ],
    "images": [
        ["folder:./my_images", "a folder for", "each class"],
        ["durm data check", "counts, sizes,", "damaged files"],
        ["split by seed", "training, validation,", "test"],
        ["paired runs", "one split", "for all arms"],
    ],
    "keep": [
        ["durm run", "interrupted"],
        ["durm run", "goes on where", "it stopped"],
        ["durm verify", "checksums, pairing,", "data"],
        ["durm clean", "removes checkpoints"],
    ],
    "lightning": [
        ["DuRM(dummies=2)", "a callback"],
        ["setup", "widens before the", "optimizer is made"],
        ["fit", "logs dummy mass", "and dummy hits"],
        ["checkpoint", "the C-class model"],
    ],
    "masks": [
        ["images/", "one.jpg"],
        ["masks/", "one.png: a class", "for each pixel"],
        ["durm data check", "pixels of", "each class"],
        ["training", "crops of image", "and mask together"],
    ],
    "own-model": [
        ["networks.py", "small(num_classes)"],
        ["--model", "networks:small"],
        ["durm.widen", "finds the head"],
        ["paired runs", "with and without", "dummies"],
    ],
    "reproduce": [
        ["recipe", "a table or figure", "of the paper"],
        ["--scale", "smoke, cpu", "or paper"],
        ["study", "paired seeds"],
        ["table", "ours next to theirs,", "with n"],
    ],
    "scikit-learn": [
        ["X, y", "labels of any kind"],
        ["DuRMClassifier", "fit: C + C_d logits"],
        ["predict_proba", "C columns,", "rows sum to 1"],
        ["GridSearchCV", "over dummies"],
    ],
    "segmentation-results": [
        ["checkpoint.pt"],
        ["durm evaluate", "--predictions out/"],
        ["out/", "a PNG for each image,", "as servers want it"],
        ["dummy pixels", "counted for", "each class"],
    ],
    "text-audio": [
        ["your data", "csv: text and label", "audio: class folders"],
        ["durm data check", "counts, lengths"],
        ["--model", "transformer, hf:…,", "lstm, mlp"],
        ["paired runs", "with and without", "dummies"],
    ],
    "timm": [
        ["create_model", "a head of C"],
        ["durm.widen", "before optimizer,", "EMA and DDP"],
        ["the loss", "durm.CrossEntropyLoss", "(num_classes=C)"],
        ["narrow_state_dict", "loads without durm"],
    ],
    "tracking": [
        ["study", "trials in runs/"],
        ["--track", "tensorboard", "or mlflow"],
        ["a run a trial", "curves, metrics,", "cost"],
        ["verdict-STUDY", "difference, interval,", "verdict"],
    ],
}


def flow(steps: list[list[str]]) -> str:
    """The chart as SVG."""
    box = (WIDTH - GAP * (len(steps) - 1)) / len(steps)
    parts = []
    for index, (title, *lines) in enumerate(steps):
        left = index * (box + GAP)
        middle = f'x="{left + box / 2:.1f}" text-anchor="middle"'
        top = HEIGHT / 2 - 7.5 * len(lines) + 4
        parts.append(
            f'<rect x="{left + 0.5:.1f}" y="0.5" width="{box - 1:.1f}" height="{HEIGHT - 1}" rx="5" '
            'fill="#eef3f9" stroke="#2a5d9c"/>'
        )
        parts.append(f'<text {middle} y="{top}" font-weight="bold" fill="#1b3a63">{escape(title)}</text>')
        parts += [
            f'<text {middle} y="{top + 15 * (row + 1)}" font-size="11" fill="#444">{escape(line)}</text>'
            for row, line in enumerate(lines)
        ]
        if index:
            parts.append(f'<path d="M{left - GAP + 3:.1f} {HEIGHT / 2}h{GAP - 8}m-5 -4l5 4l-5 4" class="a"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12.5"'
    style = "<style>.a { fill: none; stroke: #777777; stroke-width: 1.5 }</style>"
    return "\n".join([f'{head} font-family="Verdana, DejaVu Sans, Arial, sans-serif">{style}', *parts, "</svg>\n"])
