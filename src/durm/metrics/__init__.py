"""Metrics as things: how each is computed, shown, and judged. One file for each task and kind."""

from durm.metrics.metric import Family as Family
from durm.metrics.metric import Metric as Metric
from durm.metrics.metric import Task as Task
from durm.metrics.metric import describe_metric as describe_metric
from durm.metrics.metric import family as family
from durm.metrics.metric import find_metric as find_metric
from durm.metrics.metric import get_metric as get_metric
from durm.metrics.metric import measure as measure
from durm.metrics.metric import metric as metric
from durm.metrics.metric import metric_names as metric_names
