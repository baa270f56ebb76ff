"""The offline model passes the model suite of the testkit (models §1)."""

from __future__ import annotations

from hookwork.model import Model
from hookwork_offline import OfflineModel
from hookwork_testkit.suites import ModelSuite


class TestOfflineModel(ModelSuite):
    def make_model(self) -> Model:
        return OfflineModel()
