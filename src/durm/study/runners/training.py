"""durm's own training loop."""

from durm.study.base import BaseStudy
from durm.study.jobs import Execution
from durm.study.runners import RUNNERS
from durm.training import trainer
from durm.training.result import Result
from durm.training.trainer import RunContext
from durm.training.trial import Trial


@RUNNERS.register("training")
def run(trial: Trial, study: BaseStudy, execution: Execution, context: RunContext) -> Result:
    return trainer.run(trial, context)
