"""Tests of the disk do not wait for it: what matters here is the order of calls, and a full fsync is slow."""

import os

import pytest


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
