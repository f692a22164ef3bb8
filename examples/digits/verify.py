"""Gather the evidence for `proof.py` at the end, and print its verdicts: one line each, starting with `proof:`."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import proof
from allreduce import Group
from checkpoint import Checkpoint, parameter_hash
from data import Digits, schedule, steps_per_epoch
from journal import attempt_from, read_journals
from model import Model, Vector, descend
from settings import Settings


def prove(group: Group, final: Checkpoint, *, folder: Path | None, settings: Settings, digits: Digits) -> bool:
    """Judge the run and print the verdicts; return True if all hold. Rank 0 judges, the others only send evidence.

    `folder` has this node's journals; None if another rank of the node reads them.
    """
    attempts = read_journals(folder).attempts if folder is not None else ()
    hashes = group.all_gather(parameter_hash(final.parameters))
    reports = group.all_gather([asdict(attempt) for attempt in attempts])
    if group.rank != 0:
        return True
    merged = proof.merge(map(attempt_from, report) for report in reports)
    model, per_epoch = Model(settings.hidden), steps_per_epoch(len(digits.y), settings.batch)
    apart = float(np.abs(final.parameters - train_alone(settings, digits, model)).max())
    verdicts = [
        proof.judge_hashes(final.lineage, hashes, per_epoch=per_epoch),
        proof.judge_parameters(apart),
        proof.judge_steps(final.lineage, merged, total=settings.epochs * per_epoch, per_epoch=per_epoch),
        proof.judge_accuracy(model.accuracy(final.parameters, digits.x_test, digits.y_test)),
    ]
    for verdict in verdicts:
        print(verdict, flush=True)
    return not any(verdict.problems for verdict in verdicts)


def train_alone(settings: Settings, digits: Digits, model: Model) -> Vector:
    """Return the parameters of the same schedule in this process alone, without interruption, for comparison."""
    parameters = model.initial(settings.seed)
    for epoch in range(settings.epochs):
        for batch in schedule(len(digits.y), settings.batch, seed=settings.seed, epoch=epoch):
            sums = model.sums(parameters, digits.x[batch], digits.y[batch])
            parameters = descend(parameters, sums[:-2], rate=settings.lr, samples=len(batch))
    return parameters
