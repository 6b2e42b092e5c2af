"""Tests of noria.testing."""
